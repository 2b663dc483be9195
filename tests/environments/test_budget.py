"""Budgets as people write them, beside numbers that are no money."""

import pytest

from intraskill.environments.shopworld.budget import budget_of

STATED = {
    "预算40元出头": 44,
    "三百块出头就行": 330,
    "1400~1500这个价位": 1500,
    "在四百五的价位": 450,
    "费用400左右": 440,
    "想花个三十块应该差不多": 33,
    "350元和400元之间": 400,
    "预算1万2以内": 12000,
    "预算一万二": 12000,
    "1.2万以内的": 12000,
    "两千三左右的手机": None,
    "价格在三百零五以下": 305,
    "八百到一千的价位": 1000,
    "价位300-500": 500,
    "50块上下": 55,
    "预算100出头": 110,
    "花费两百来块": 220,
    "一百多块": 200,
    "三十几块钱": 40,
    "控制在200元以内": 200,
    "不超过两百五十元": 250,
    "最多给到800": 800,
    "150元起": None,
    "预算五百，最好别超过六百": 500,
    "200—300元之间": 300,
    "二百到三百元": 300,
    "价格两三百": 300,
    "价格区间是100元至150元": 150,
    "开销大概在80元": 88,
    "我愿意出1500元": 1500,
    "一千五的预算": 1500,
    "预算是3千5": 3500,
    "预算2k左右": 2200,
    "¥99以内": 99,
    "99元包邮": 99,
    "人民币500以内": 500,
    "五百块以内": 500,
    "价格在100跟200之间": 200,
    "100与150元之间的": 150,
    "差不多60块钱": 66,
    "六十块钱差不多": 66,
    "不到100块": 100,
    "五十元不到": 50,
    "百元以内": 100,
    "千元左右": 1100,
    "预算9.9元": 9.9,
    "预算：２００元": 200,
    "预算一百二": 120,
    "一百二十块": 120,
    "预算3000以下": 3000,
    "价格别太高，1000以内": 1000,
    "under 40 dollars": 40,
    "between $20 and $35": 35,
    "about 60 bucks": 66,
    "a budget of 1.5k": 1500,
    "price lower than 50.00 dollars": 50,
    "forty-five dollars at most": 45,
}
"""Request → upper price; ``None``: a lower bound, or an amount without any sign of money."""
NO_MONEY = (
    "500毫升的水杯",
    "尺码10-12",
    "2024款连衣裙",
    "买3块毛巾",
    "满300减50的那种",
    "身高175以内",
    "100ml小瓶",
    "型号X300",
    "第2代",
    "16G内存",
    "10斤装",
    "适合3到5岁",
    "长度150左右",
    "300克",
    "A4纸500张",
    "5号电池",
    "功率2000瓦以内",
    "2件",
    "颜色302",
    "iPhone 15",
    "7天无理由",
    "1400~1500毫米",
    "350和400之间的尺码",
    "四百五十毫升",
    "1万2毫安时",
    "12V",
    "买两件打8折",
    "三十出头的女士",
    "四百出头的",
    "二十五块五",
    "size 10-12",
    "a 24 inch monitor under my desk",
    "pack of 6",
    "for ages 3 to 5",
    "item shape: round, 12 oz",
)


@pytest.mark.parametrize(("request_", "upper"), STATED.items(), ids=list(STATED))
def test_a_stated_budget_is_read(request_: str, upper: float | None) -> None:
    found = budget_of(request_)[0]
    assert found == (upper if upper is None else pytest.approx(upper))


@pytest.mark.parametrize("request_", NO_MONEY)
def test_a_number_that_is_no_money_is_no_budget(request_: str) -> None:
    assert budget_of(request_)[0] is None
