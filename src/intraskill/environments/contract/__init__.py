"""The contract that every environment must keep, as rules that are checked by playing it."""

from intraskill.environments.contract.check import Finding, check_environment

__all__ = ["Finding", "check_environment"]
