from effx.ir.checker import *
from effx.ir.checker import check_program as check
from effx.ir.program import Equation as Equation, Literal as Literal, Program as Program, Var as Var
from effx.ir.text import *
from effx.ir.types import ArrayType as ArrayType, array_type as array_type
