from . import fft, linalg
from effx.numpy.applying import *
from effx.ir.values.array import (
    bool_ as bool_,
    int1 as int1,
    uint1 as uint1,
    int2 as int2,
    int4 as int4,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint2 as uint2,
    uint4 as uint4,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    float4_e2m1fn as float4_e2m1fn,
    float6_e2m3fn as float6_e2m3fn,
    float6_e3m2fn as float6_e3m2fn,
    float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    bfloat16 as bfloat16,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    complex64 as complex64,
    complex128 as complex128,
)
from effx.numpy.binary import *
from effx.numpy.creation import *
from effx.numpy.einsums import *
from effx.numpy.elementwise import *
from effx.numpy.files import *
from effx.numpy.filtering import *
from effx.numpy.fitting import *
from effx.numpy.floats import *
from effx.numpy.foreign import *
from effx.numpy.grids import *
from effx.numpy.histograms import *
from effx.numpy.indexing import *
from effx.numpy.inspection import *
from effx.numpy.interpolating import *
from effx.numpy.joining import *
from effx.numpy.linear import *
from effx.numpy.logic import *
from effx.numpy.nanreductions import *
from effx.numpy.numbertheory import *
from effx.numpy.padding import *
from effx.numpy.placing import *
from effx.numpy.polynomials import *
from effx.numpy.ranges import *
from effx.numpy.reductions import *
from effx.numpy.scalars import *
from effx.numpy.sets import *
from effx.numpy.shaping import *
from effx.numpy.sorting import *
from effx.numpy.statistics import *
from effx.numpy.ufuncs import *
from effx.numpy.vectorizing import *

bool = bool_
