"""Shops made of files that the user has: ShopSimulator's rows, or WebShop's items and instructions."""

from intraskill.environments.shop_files.factories import FileShop as FileShop
from intraskill.environments.shop_files.factories import shopsimulator as shopsimulator
from intraskill.environments.shop_files.factories import webshop as webshop
from intraskill.environments.shop_files.loaded import Excluded as Excluded
from intraskill.environments.shop_files.loaded import Loaded as Loaded
from intraskill.environments.shop_files.shopsimulator_rows import load_shopsimulator as load_shopsimulator
from intraskill.environments.shop_files.webshop_rows import load_webshop as load_webshop
