from effx.families.accuracy import Accurate as Accurate
from effx.families.attention import (
    FusedAttention as FusedAttention,
    FusedAttentionGradient as FusedAttentionGradient,
    FusedAttentionTangent as FusedAttentionTangent,
)
from effx.families.bessel import BesselI0e as BesselI0e, BesselI1e as BesselI1e
from effx.families.bit_generators import RngBitGenerator as RngBitGenerator, RngUniform as RngUniform
from effx.families.callbacks.callback import PythonCallback as PythonCallback
from effx.families.composite import Composite as Composite
from effx.families.convolution import Convolution as Convolution
from effx.families.exported_call import ExportedCall as ExportedCall
from effx.families.fft import Fft as Fft
from effx.families.foreign import ForeignCall as ForeignCall
from effx.families.gamma import (
    CoarseLgamma as CoarseLgamma,
    Digamma as Digamma,
    Gamma as Gamma,
    Lgamma as Lgamma,
    Polygamma as Polygamma,
    Zeta as Zeta,
)
from effx.families.incomplete import (
    Betainc as Betainc,
    BetaincGradA as BetaincGradA,
    Igamma as Igamma,
    IgammaGradA as IgammaGradA,
    Igammac as Igammac,
    RandomGammaGrad as RandomGammaGrad,
)
from effx.families.inspection import InspectSharding as InspectSharding
from effx.families.linalg.cholesky import Cholesky as Cholesky
from effx.families.linalg.eigen import Eig as Eig, Eigh as Eigh, Pinv as Pinv, Svd as Svd
from effx.families.linalg.lu import (
    Det as Det,
    Lu as Lu,
    PivotsToPermutation as PivotsToPermutation,
    Slogdet as Slogdet,
    Solve as Solve,
)
from effx.families.linalg.matrices import Factorization as Factorization, MatrixOperation as MatrixOperation
from effx.families.linalg.qr import (
    Geqp3 as Geqp3,
    Geqrf as Geqrf,
    HouseholderProduct as HouseholderProduct,
    Qr as Qr,
)
from effx.families.linalg.similarity import (
    Hessenberg as Hessenberg,
    Schur as Schur,
    Tridiagonal as Tridiagonal,
)
from effx.families.linalg.triangular import TriangularSolve as TriangularSolve
from effx.families.linalg.tridiagonal import TridiagonalSolve as TridiagonalSolve
from effx.families.mulhi import Mulhi as Mulhi
from effx.families.order_statistics import OrderStatistics as OrderStatistics
from effx.families.platform import PlatformIndex as PlatformIndex
from effx.families.quantiles import Ndtri as Ndtri
from effx.families.ragged import GroupedMatmul as GroupedMatmul, GroupedOuter as GroupedOuter
from effx.families.sort import Sort as Sort
from effx.families.special import Erf as Erf, ErfInv as ErfInv, Erfc as Erfc
from effx.families.topk import (
    ApproximateTopK as ApproximateTopK,
    Selection as Selection,
    TopIndices as TopIndices,
    TopK as TopK,
)
from effx.families.windows import (
    ReduceWindowMax as ReduceWindowMax,
    ReduceWindowMin as ReduceWindowMin,
    ReduceWindowSum as ReduceWindowSum,
    WindowArg as WindowArg,
    WindowArgMax as WindowArgMax,
    WindowArgMin as WindowArgMin,
    WindowReduction as WindowReduction,
)
from effx.ir.ops.base import (
    ArrayOperation as ArrayOperation,
    Binary as Binary,
    Elementwise as Elementwise,
    Linear as Linear,
    Monotone as Monotone,
    NamedAttribute as NamedAttribute,
    PiecewiseConstant as PiecewiseConstant,
    Rearranging as Rearranging,
    Structural as Structural,
    TupleOperation as TupleOperation,
    Unary as Unary,
)
from effx.ir.ops.checkpoint import (
    Checkpoint as Checkpoint,
    CheckpointName as CheckpointName,
    Identity as Identity,
    Offload as Offload,
    Unpinned as Unpinned,
)
from effx.ir.ops.collective import (
    AllGather as AllGather,
    AllToAll as AllToAll,
    AxisIndex as AxisIndex,
    Collective as Collective,
    CollectiveReduction as CollectiveReduction,
    Grouped as Grouped,
    PCast as PCast,
    PMax as PMax,
    PMin as PMin,
    PPermute as PPermute,
    PSum as PSum,
    PSumScatter as PSumScatter,
    PSumShared as PSumShared,
)
from effx.ir.ops.compare import (
    Comparison as Comparison,
    Eq as Eq,
    Equality as Equality,
    Ge as Ge,
    Gt as Gt,
    Le as Le,
    Lt as Lt,
    Ne as Ne,
)
from effx.ir.ops.control import (
    Call as Call,
    Calling as Calling,
    Cond as Cond,
    HigherOrder as HigherOrder,
    Loop as Loop,
    Region as Region,
    Scan as Scan,
    While as While,
)
from effx.ir.ops.convert import (
    Bitcast as Bitcast,
    Convert as Convert,
    Copy as Copy,
    OptimizationBarrier as OptimizationBarrier,
    ReducePrecision as ReducePrecision,
    StopGradient as StopGradient,
)
from effx.ir.ops.custom import (
    CustomBackward as CustomBackward,
    CustomCall as CustomCall,
    CustomRules as CustomRules,
    CustomTangent as CustomTangent,
    NamedCall as NamedCall,
    TangentOperands as TangentOperands,
)
from effx.ir.ops.elementwise import (
    Abs as Abs,
    Acos as Acos,
    Acosh as Acosh,
    Add as Add,
    And as And,
    Asin as Asin,
    Asinh as Asinh,
    Atan as Atan,
    Atan2 as Atan2,
    Atanh as Atanh,
    Cbrt as Cbrt,
    Ceil as Ceil,
    Clamp as Clamp,
    Complex as Complex,
    ComplexPart as ComplexPart,
    Conj as Conj,
    Cos as Cos,
    Cosh as Cosh,
    CountLeadingZeros as CountLeadingZeros,
    Div as Div,
    Exp as Exp,
    Exp2 as Exp2,
    Expm1 as Expm1,
    Floor as Floor,
    Imag as Imag,
    IntegerPow as IntegerPow,
    IsFinite as IsFinite,
    Log as Log,
    Log1p as Log1p,
    Logistic as Logistic,
    Max as Max,
    Min as Min,
    Mul as Mul,
    Neg as Neg,
    NextAfter as NextAfter,
    Not as Not,
    OneMinusSquare as OneMinusSquare,
    Or as Or,
    PopulationCount as PopulationCount,
    Pow as Pow,
    Real as Real,
    Rem as Rem,
    RoundAwayFromZero as RoundAwayFromZero,
    RoundToEven as RoundToEven,
    Rsqrt as Rsqrt,
    Select as Select,
    ShiftLeft as ShiftLeft,
    ShiftRightArithmetic as ShiftRightArithmetic,
    ShiftRightLogical as ShiftRightLogical,
    Sign as Sign,
    Sin as Sin,
    Sinh as Sinh,
    Sqrt as Sqrt,
    Square as Square,
    Sub as Sub,
    Tan as Tan,
    Tanh as Tanh,
    Xor as Xor,
)
from effx.ir.ops.groups import LoopOperands as LoopOperands, LoopResults as LoopResults
from effx.ir.ops.host import Hosted as Hosted
from effx.ir.ops.index import Gather as Gather, Scatter as Scatter
from effx.ir.ops.layout import ConstrainLayout as ConstrainLayout
from effx.ir.ops.linalg import DotGeneral as DotGeneral
from effx.ir.ops.parallel import ParallelMap as ParallelMap
from effx.ir.ops.random import Threefry2x32 as Threefry2x32
from effx.ir.ops.reduce import (
    ArgMax as ArgMax,
    ArgMin as ArgMin,
    ArgReduction as ArgReduction,
    CumMax as CumMax,
    CumMin as CumMin,
    CumProd as CumProd,
    CumSum as CumSum,
    Cumulative as Cumulative,
    ReduceAnd as ReduceAnd,
    ReduceMax as ReduceMax,
    ReduceMin as ReduceMin,
    ReduceOr as ReduceOr,
    ReduceProd as ReduceProd,
    ReduceSum as ReduceSum,
    ReduceXor as ReduceXor,
    Reduction as Reduction,
)
from effx.ir.ops.shape import (
    BroadcastInDim as BroadcastInDim,
    Concatenate as Concatenate,
    DynamicSlice as DynamicSlice,
    DynamicUpdateSlice as DynamicUpdateSlice,
    Iota as Iota,
    Pad as Pad,
    Reshape as Reshape,
    Reverse as Reverse,
    Slice as Slice,
    Transpose as Transpose,
)
from effx.ir.ops.sharding import Constrain as Constrain, Move as Move, Release as Release
from effx.ir.ops.sizes import SizeValue as SizeValue
from effx.ir.ops.solve import EquationSolution as EquationSolution, LinearSolve as LinearSolve, Root as Root
