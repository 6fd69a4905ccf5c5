from effx.compat.finder import install as install, installed as installed
from effx.compat.missing import Missing as Missing, MissingReport as MissingReport, report as report
