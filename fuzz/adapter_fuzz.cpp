// Parses any bytes as a GGUF adapter file for a small model. The file is rejected with an Error, or
// loaded.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/adapter.h"
#include "base/check.h"
#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "kernels/kernel_table.h"

namespace {

using namespace billow;

// A base model with a matrix that is split in two, two experts, and an embedding that is also the
// output.
struct Model {
  Model() {
    const std::vector<float> zeros(size_t{32} * 64);
    const auto add = [&](const char* name, std::span<const uint64_t> shape) {
      size_t n = 1;
      for (const uint64_t size : shape) n *= size;
      writer.add_tensor(name, 0, shape, std::as_bytes(std::span(zeros)).first(n * sizeof(float)));
    };
    writer.set_string("general.architecture", "llama");
    add("blk.0.attn_qkv.weight", std::array<uint64_t, 2>{32, 48});
    add("blk.0.ffn_up_exps.weight", std::array<uint64_t, 3>{32, 16, 2});
    add("token_embd.weight", std::array<uint64_t, 2>{32, 10});
    bytes = writer.to_bytes();
    file.emplace(gguf::File::parse(bytes, "model"));
    const auto cut = [&](const char* name, size_t row, size_t n) {
      const gguf::TensorInfo& info = *file->find_tensor(name);
      const tensor::Tensor whole = {info.data.data(), quant::Type::kF32, 32, row + n};
      matrices.push_back({whole.row(row), quant::Type::kF32, 32, n});
    };
    cut("blk.0.attn_qkv.weight", 0, 32);
    cut("blk.0.attn_qkv.weight", 32, 16);
    cut("blk.0.ffn_up_exps.weight", 0, 16);
    cut("blk.0.ffn_up_exps.weight", 16, 16);
    cut("token_embd.weight", 0, 10);
  }
  gguf::Writer writer;
  std::vector<std::byte> bytes;
  std::optional<gguf::File> file;
  std::vector<tensor::Tensor> matrices;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Model model;
  const arch::AdapterBase base = {*model.file, model.matrices};
  try {
    const gguf::File file = gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
    const arch::AdapterSource sources[] = {{&file, 2.0f}, {&file, -1.0f}};
    const arch::AdapterNeed need = arch::adapter_need(base, sources);
    if (need.bytes > uint64_t{64} << 20) return 0;
    const auto adapter = arch::load_adapter(base, sources, kernels::select_table());
    BILLOW_CHECK(adapter->max_rank() == need.rank);
  } catch (const Error&) {  // rejected
  }
  return 0;
}
