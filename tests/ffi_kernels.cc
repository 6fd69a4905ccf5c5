// Foreign functions for test_ffi.py, written for it against the headers that come with jaxlib.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using F32Out = ffi::ResultBuffer<ffi::F32>;

// y = x / sqrt(mean(x^2) + eps) along the last axis, and its factor r = 1 / sqrt(...) for the gradient.
static int64_t Last(const F32& x) { return x.dimensions().size() == 0 ? 1 : x.dimensions().back(); }

static void Norm(float eps, const float* x, float* y, float* r, int64_t n) {
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += x[j] * x[j];
  float factor = 1 / std::sqrt(sum / n + eps);
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] * factor;
  if (r) *r = factor;
}

static ffi::Error NormOf(float eps, F32 x, F32Out y) {
  int64_t n = Last(x), size = x.element_count();
  for (int64_t i = 0; i < size; i += n) Norm(eps, x.typed_data() + i, y->typed_data() + i, nullptr, n);
  return ffi::Error::Success();
}

static ffi::Error NormForward(float eps, F32 x, F32Out y, F32Out r) {
  int64_t n = Last(x), size = x.element_count();
  for (int64_t i = 0; i < size; i += n) {
    Norm(eps, x.typed_data() + i, y->typed_data() + i, r->typed_data() + i / n, n);
  }
  return ffi::Error::Success();
}

// With y = r x: ct_x = r ct - r^3 x (x . ct) / n.
static ffi::Error NormBackward(F32 r, F32 x, F32 ct, F32Out out) {
  int64_t n = Last(x), size = x.element_count();
  for (int64_t i = 0; i < size; i += n) {
    const float *row = x.typed_data() + i, *given = ct.typed_data() + i;
    float factor = r.typed_data()[i / n], dot = 0;
    for (int64_t j = 0; j < n; ++j) dot += row[j] * given[j];
    for (int64_t j = 0; j < n; ++j) {
      out->typed_data()[i + j] = factor * given[j] - factor * factor * factor * row[j] * dot / n;
    }
  }
  return ffi::Error::Success();
}

// All kinds of attributes, summed with weights so that none stands for another.
static ffi::Error Attributes(bool flag, int64_t wide, int32_t narrow, uint8_t small, float single, double real,
                             std::string_view text, ffi::Span<const int64_t> longs,
                             ffi::Span<const float> floats, ffi::Span<const uint32_t> words,
                             ffi::Dictionary nested, ffi::ResultBuffer<ffi::F64> y) {
  ffi::ErrorOr<int64_t> inner = nested.get<int64_t>("inner");
  if (inner.has_error()) return inner.error();
  double* out = y->typed_data();
  out[0] = flag;
  out[1] = static_cast<double>(wide);
  out[2] = narrow;
  out[3] = small;
  out[4] = single;
  out[5] = real;
  out[6] = static_cast<double>(text.size());
  out[7] = out[8] = out[9] = 0;
  for (size_t i = 0; i < longs.size(); ++i) out[7] = 10 * out[7] + longs[i];
  for (size_t i = 0; i < floats.size(); ++i) out[8] = 10 * out[8] + floats[i];
  for (size_t i = 0; i < words.size(); ++i) out[9] = 10 * out[9] + words[i];
  out[10] = static_cast<double>(*inner);
  return ffi::Error::Success();
}

// Memory as it lies.
static ffi::Error Copy(F32 x, F32Out y) {
  if (y->typed_data() != x.typed_data()) {
    std::memcpy(y->typed_data(), x.typed_data(), x.element_count() * sizeof(float));
  }
  return ffi::Error::Success();
}

// Whether the result lies where the operand does.
static ffi::Error InPlace(F32 x, F32Out y, ffi::ResultBuffer<ffi::S32> same) {
  *same->typed_data() = x.typed_data() == y->typed_data();
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}

// The sizes of two operands, in each element of the result: what vmap gives the function.
static ffi::Error Sizes(F32 a, F32 b, ffi::ResultBuffer<ffi::S32> y) {
  for (size_t i = 0; i < y->element_count(); ++i) {
    y->typed_data()[i] = static_cast<int32_t>(100 * a.element_count() + b.element_count());
  }
  return ffi::Error::Success();
}

static int64_t calls = 0;
extern "C" int64_t CountOfCalls() { return calls; }

static ffi::Error Counted(F32 x, F32Out y) {
  ++calls;
  return Copy(x, y);
}

static ffi::Error Failing(F32 x, F32Out y) { return ffi::Error::InvalidArgument("the kernel has had enough"); }

// A state that the first stage makes.
struct Offset {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  explicit Offset(float value) : value(value) {}
  float value;
};
ffi::TypeId Offset::id = {};
ffi::TypeInfo Offset::info = ffi::MakeTypeInfo<Offset>();

static ffi::ErrorOr<std::unique_ptr<Offset>> MakeOffset(float offset) { return std::make_unique<Offset>(offset); }

static ffi::Error AddOffset(Offset* state, F32 x, F32Out y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + state->value;
  return ffi::Error::Success();
}

extern "C" void* OffsetId() { return &Offset::id; }
extern "C" void* OffsetInfo() { return &Offset::info; }

// The earlier interfaces: memory, and a string in later versions.
extern "C" void Doubled(float* out, const float** in) {
  for (int i = 0; i < 3; ++i) out[i] = 2 * in[0][i];
}

extern "C" void Scaled(float* out, const float** in, const char* text, size_t size, void* status) {
  float factor = std::stof(std::string(text, size));
  for (int i = 0; i < 3; ++i) out[i] = factor * in[0][i];
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNorm, NormOf, ffi::Ffi::Bind().Attr<float>("eps").Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormFwd, NormForward,
                              ffi::Ffi::Bind().Attr<float>("eps").Arg<F32>().Ret<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormBwd, NormBackward,
                              ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(AllAttributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("flag")
                                  .Attr<int64_t>("wide")
                                  .Attr<int32_t>("narrow")
                                  .Attr<uint8_t>("small")
                                  .Attr<float>("single")
                                  .Attr<double>("real")
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("longs")
                                  .Attr<ffi::Span<const float>>("floats")
                                  .Attr<ffi::Span<const uint32_t>>("words")
                                  .Attr<ffi::Dictionary>("nested")
                                  .Ret<ffi::Buffer<ffi::F64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(RawCopy, Copy, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(Bump, InPlace,
                              ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Ret<ffi::Buffer<ffi::S32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(BothSizes, Sizes,
                              ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<ffi::Buffer<ffi::S32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(CountedCopy, Counted, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(Refuses, Failing, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(OffsetNew, MakeOffset, ffi::Ffi::BindInstantiate().Attr<float>("offset"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(OffsetAdd, AddOffset,
                              ffi::Ffi::Bind().Ctx<ffi::State<Offset>>().Arg<F32>().Ret<F32>());
