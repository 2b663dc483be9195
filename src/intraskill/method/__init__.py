"""The method, one idea per file: numpy, scipy and statsmodels; no files but its own word lists, no torch, no clock."""
