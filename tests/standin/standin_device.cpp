// A device of PyTorch whose memory no program on a processor may touch, for tests without a GPU.
//
// Its addresses are of pages that nothing may read or write, as those of a GPU are: a read of
// `data_ptr` ends the process. The numbers lie OFFSET bytes further on. Each operation is
// computed there by the processor's own kernel, in place and without copies, so views stay views.

// Not <ATen/ATen.h>, which has every operation and takes a third of the time to compile.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <vector>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr size_t kSpan = size_t(1) << 34;
std::atomic<long> copies_out{0};

struct Memory {
  char* device;
  char* numbers;
  std::mutex lock;
  size_t end = 512;
  std::map<size_t, std::vector<size_t>> free;
  std::map<size_t, size_t> sizes;

  Memory() {
    device = static_cast<char*>(
        mmap(nullptr, kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    numbers = static_cast<char*>(mmap(nullptr, kSpan, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  void* take(size_t bytes) {
    const std::lock_guard<std::mutex> held(lock);
    size_t size = 512;
    while (size < bytes) size *= 2;
    auto& same = free[size];
    size_t at = end;
    if (same.empty()) {
      end += size;
      TORCH_CHECK(end < kSpan, "the stand-in device is out of memory");
    } else {
      at = same.back();
      same.pop_back();
    }
    sizes[at] = size;
    return device + at;
  }
  void give(void* place) {
    const std::lock_guard<std::mutex> held(lock);
    size_t at = static_cast<char*>(place) - device;
    free[sizes[at]].push_back(at);
  }
  bool has_device(const void* p) const { return p >= device && p < device + kSpan; }
  bool has_numbers(const void* p) const { return p >= numbers && p < numbers + kSpan; }
};

Memory& memory() {
  static Memory* one = new Memory();
  return *one;
}

void give_back(void* place) {
  if (place) memory().give(place);
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* place = bytes ? memory().take(bytes) : nullptr;
    return {place, place, &give_back, c10::Device(kDevice, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t count) const override {
    auto& m = memory();
    auto shift = m.numbers - m.device;
    memcpy(static_cast<char*>(to) + shift, static_cast<const char*>(from) + shift, count);
  }
};
DeviceAllocator allocator;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::DeviceType::CPU);
  }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static auto one = at::detail::getDefaultCPUGenerator();
    return one;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<at::CPUGeneratorImpl>();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto old = storage.nbytes();
    auto fresh = allocator.allocate(size);
    if (storage.data()) allocator.copy_data(fresh.get(), storage.data(), std::min(old, size));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDevice;
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return {kDevice, 0}; }
  c10::Device getDevice() const override { return {kDevice, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDevice, 0));
  }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream({kDevice, 0}); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

bool is_ours(const at::Tensor& one) { return one.defined() && one.device().type() == kDevice; }

// The numbers of a tensor of the device, as a tensor of the processor in the same memory.
at::Tensor numbers_of(const at::Tensor& one) {
  if (!is_ours(one)) return one;
  auto& m = memory();
  auto options = one.options().device(at::kCPU);
  auto* begin = static_cast<char*>(one.storage().mutable_data());
  if (begin == nullptr) return at::empty_strided(one.sizes(), one.strides(), options);
  auto storage = c10::Storage(c10::Storage::use_byte_size_t(), one.storage().nbytes(),
                              c10::DataPtr(begin + (m.numbers - m.device), c10::kCPU), nullptr,
                              false);
  auto found = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), one.dtype());
  found.unsafeGetTensorImpl()->set_storage_offset(one.storage_offset());
  found.unsafeGetTensorImpl()->set_sizes_and_strides(one.sizes(), one.strides());
  if (one.is_conj()) found.unsafeGetTensorImpl()->_set_conj(true);
  if (one.is_neg()) found.unsafeGetTensorImpl()->_set_neg(true);
  return found;
}

at::Tensor view_like(const at::Tensor& base, const at::Tensor& seen) {
  auto found = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()),
      base.key_set(), seen.dtype());
  found.unsafeGetTensorImpl()->set_storage_offset(seen.storage_offset());
  found.unsafeGetTensorImpl()->set_sizes_and_strides(seen.sizes(), seen.strides());
  found.unsafeGetTensorImpl()->_set_conj(seen.is_conj());
  found.unsafeGetTensorImpl()->_set_neg(seen.is_neg());
  return found;
}

at::Tensor fresh(at::IntArrayRef size, at::IntArrayRef stride, caffe2::TypeMeta dtype) {
  at::AutoDispatchBelowAutograd below;
  return at::empty_strided(size, stride, at::TensorOptions().dtype(dtype).device(kDevice, 0));
}

at::Tensor to_device(const at::Tensor& seen) {
  auto plain = seen.resolve_conj().resolve_neg();
  auto found = fresh(plain.sizes(), plain.strides(), plain.dtype());
  numbers_of(found).copy_(plain);
  return found;
}

struct Call {
  std::vector<at::Tensor> originals, seen;

  at::Tensor in(const at::Tensor& one, bool written) {
    if (!is_ours(one)) return one;
    auto as_numbers = written && one.numel() == 0
                          ? at::empty({0}, one.options().device(at::kCPU))
                          : numbers_of(one);
    originals.push_back(one);
    seen.push_back(as_numbers);
    return as_numbers;
  }
  at::Tensor out(const at::Tensor& one) {
    if (!one.defined() || one.device().type() != at::kCPU) return one;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!one.is_same(seen[i])) continue;
      auto& original = originals[i];
      if (original.sizes() != one.sizes()) {
        at::native::resize_output(original, one.sizes());
        numbers_of(original).copy_(one);
      }
      return original;
    }
    if (one.has_storage() && memory().has_numbers(one.storage().data())) {
      for (size_t i = 0; i < seen.size(); ++i) {
        if (seen[i].storage().data() == one.storage().data()) return view_like(originals[i], one);
      }
      TORCH_CHECK(false, "a view of unknown memory");
    }
    return to_device(one);
  }
};

bool touches(const c10::IValue& value) {
  if (value.isTensor()) return is_ours(value.toTensor());
  if (value.isTensorList()) {
    for (const auto& one : value.toTensorVector()) {
      if (is_ours(one)) return true;
    }
  }
  if (value.isOptionalTensorList()) {
    for (const auto& one : value.toOptionalTensorVector()) {
      if (one.has_value() && is_ours(*one)) return true;
    }
  }
  return value.isDevice() && value.toDevice().type() == kDevice;
}

// As CUDA: numbers of main memory do not meet those of the device, but for single ones and indices.
void check_devices(const c10::OperatorHandle& op, const std::vector<c10::IValue>& values) {
  bool ours = false, others = false;
  auto see = [&](const at::Tensor& one) {
    if (!one.defined()) return;
    if (is_ours(one)) {
      ours = true;
    } else if (one.dim() > 0) {
      others = true;
    }
  };
  for (const auto& value : values) {
    if (value.isTensor()) see(value.toTensor());
    if (value.isTensorList()) {
      for (const auto& one : value.toTensorVector()) see(one);
    }
  }
  TORCH_CHECK(!(ours && others), op.schema().name(),
              ": Expected all tensors to be on the same device, but found at least two devices, "
              "standin:0 and cpu!");
}

void on_processor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  auto arguments = schema.arguments();
  auto values = torch::jit::last(stack, arguments.size()).vec();
  check_devices(op, values);
  torch::jit::drop(*stack, arguments.size());
  Call call;
  bool ours = false;
  for (size_t i = 0; i < values.size(); ++i) {
    auto& value = values[i];
    auto* alias = arguments[i].alias_info();
    bool written = alias && alias->isWrite();
    ours = ours || touches(value);
    if (value.isTensor()) {
      value = call.in(value.toTensor(), written);
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> found;
      for (const auto& one : value.toTensorVector()) found.push_back(call.in(one, written));
      value = c10::IValue(found);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> found;
      for (const auto& one : value.toOptionalTensorVector()) {
        found.push_back(one.has_value() ? std::make_optional(call.in(*one, written)) : one);
      }
      value = c10::IValue(found);
    } else if (value.isDevice() && value.toDevice().type() == kDevice) {
      value = c10::IValue(c10::Device(at::kCPU));
    }
    stack->push_back(value);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  auto count = schema.returns().size();
  auto results = torch::jit::last(stack, count).vec();
  torch::jit::drop(*stack, count);
  for (auto& value : results) {
    if (ours && value.isTensor()) {
      value = call.out(value.toTensor());
    } else if (ours && value.isTensorList()) {
      std::vector<at::Tensor> found;
      for (const auto& one : value.toTensorVector()) found.push_back(call.out(one));
      value = c10::IValue(found);
    }
    stack->push_back(value);
  }
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout>, std::optional<at::Device>,
                               std::optional<bool>, std::optional<at::MemoryFormat> format) {
  auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
  at::Tensor found = at::detail::empty_generic(
      size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, format);
  // No number: whoever reads before writing notices.
  if (found.numel() && found.is_floating_point()) numbers_of(found).fill_(NAN);
  return found;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
  return at::detail::empty_strided_generic(
      size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  if (is_ours(self) && !is_ours(dst)) ++copies_out;
  auto target = numbers_of(dst);
  target.copy_(numbers_of(self));
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  ++copies_out;
  return numbers_of(self).item();
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  int64_t numel = c10::multiply_integers(size);
  size_t bytes = (self.storage_offset() + numel) * self.element_size();
  if (bytes > self.storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source);
  impl->set_storage_offset(offset);
  if (stride.empty() && !size.empty()) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  auto with = bias.has_value() ? std::make_optional(numbers_of(*bias)) : bias;
  return to_device(at::convolution_symint(numbers_of(input), numbers_of(weight), with, stride,
                                          padding, dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups,
    std::array<bool, 3> mask) {
  auto channels = transposed ? weight.size(1) * groups.expect_int() : weight.size(0);
  std::vector<int64_t> bias{channels};
  auto [one, two, three] = at::convolution_backward_symint(
      numbers_of(grad), numbers_of(input), numbers_of(weight),
      c10::fromIntArrayRefSlow(bias), stride, padding, dilation, transposed, output_padding,
      groups, mask);
  auto there = [](const at::Tensor& x) { return x.defined() ? to_device(x) : x; };
  return {there(one), there(two), there(three)};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias) {
  auto in = numbers_of(input_gates), hid = numbers_of(hidden_gates), h = numbers_of(hx);
  if (input_bias.has_value() && input_bias->defined()) in = in + numbers_of(*input_bias);
  if (hidden_bias.has_value() && hidden_bias->defined()) hid = hid + numbers_of(*hidden_bias);
  auto a = in.chunk(3, 1), b = hid.chunk(3, 1);
  auto r = (a[0] + b[0]).sigmoid(), i = (a[1] + b[1]).sigmoid(), n = (a[2] + r * b[2]).tanh();
  return {to_device(n + i * (h - n)), to_device(at::cat({r, i, n, h, b[2]}, 1))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  auto g = numbers_of(grad);
  auto w = numbers_of(workspace).chunk(5, 1);
  auto r = w[0], i = w[1], n = w[2], h = w[3], hn = w[4];
  auto dn = g * (1 - i) * (1 - n * n), di = g * (h - n) * i * (1 - i);
  auto dr = dn * hn * r * (1 - r);
  auto in = at::cat({dr, di, dn}, 1), hid = at::cat({dr, di, dn * r}, 1);
  auto bias = [&](const at::Tensor& x) { return has_bias ? to_device(x.sum(0)) : at::Tensor(); };
  return {to_device(in), to_device(hid), to_device(g * i), bias(in), bias(hid)};
}

// As CUDA's, a tensor of the device may become the data of one in main memory.
bool is_dense(const at::Tensor&, const at::Tensor&) { return true; }

}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_has_compatible_shallow_copy_type", [](const at::Tensor& one, const at::Tensor& other) {
    return is_ours(other) || one.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(
                                 other.key_set());
  });
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_processor>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_has_compatible_shallow_copy_type", is_dense);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  // PyTorch's own way for these makes a loss of another shape first.
  for (const auto* name : {"mse_loss", "smooth_l1_loss", "huber_loss"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_processor>());
  }
  m.impl("convolution_overrideable", convolution);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

extern "C" {
// Number of copies out of the device, each of which waits for it.
long standin_copies_out() { return copies_out.load(); }
}

namespace {
struct Registered {
  Registered() {
    c10::SetAllocator(kDevice, &allocator);
    at::RegisterPrivateUse1HooksInterface(new Hooks());
  }
} registered;
}  // namespace
