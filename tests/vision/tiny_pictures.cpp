#include "vision/tiny_pictures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "arch/model.h"
#include "base/test_source_dir.h"
#include "cpu/thread_team.h"
#include "image/picture.h"
#include "tensor/arena.h"
#include "vision/plan.h"

namespace billow::pictures {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

image::Picture picture() { return image::decode(bytes_of(folder() + "picture.png")); }

}  // namespace

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

const std::vector<Family>& families() {
  constexpr uint64_t kGemma4Pixels = uint64_t{140} * 12 * 12;
  static const std::vector<Family> kFamilies = {{"gemma3"},
                                                {"gemma4", 0, kGemma4Pixels},
                                                {"gemma4-e", 0, kGemma4Pixels},
                                                {"internvl"},
                                                {"lfm2_vl"},
                                                {"llama4"},
                                                {"mistral3"},
                                                {"qwen2_5_vl"},
                                                {"qwen2_vl"},
                                                {"qwen3_5", 3136},
                                                {"qwen3_vl", 3136},
                                                {"smolvlm"}};
  return kFamilies;
}

std::string test_name(const testing::TestParamInfo<Family>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string folder() { return source_dir() + "/../shared/data/vision/"; }

std::string missing_data() {
  if (std::filesystem::exists(folder() + "picture.png")) return "";
  return "no tiny picture encoders: " + folder() + " is not there";
}

gguf::File open(const Family& family) {
  return gguf::File::open(folder() + family.name + ".mmproj.gguf");
}

vision::Rule rule_of(const Family& family, const gguf::File& file) {
  vision::Rule rule = vision::rule_of(file);
  if (family.min_pixels > 0) rule.min_pixels = family.min_pixels;
  if (family.max_pixels > 0) rule.max_pixels = family.max_pixels;
  return rule;
}

std::vector<float> npy_floats(const std::string& path) {
  const std::string bytes = bytes_of(path);
  constexpr size_t kBeforeHeader = 10;  // magic, version, two bytes of length
  if (bytes.size() < kBeforeHeader) return {};
  const size_t start =
      kBeforeHeader + static_cast<uint8_t>(bytes[8]) + size_t{256} * static_cast<uint8_t>(bytes[9]);
  EXPECT_NE(bytes.substr(0, start).find("'<f4'"), std::string::npos);
  std::vector<float> floats((bytes.size() - start) / sizeof(float));
  std::memcpy(floats.data(), bytes.data() + start, floats.size() * sizeof(float));
  return floats;
}

vision::Pixels recorded_pixels(const Family& family, const vision::Rule& rule) {
  vision::Pixels pixels{.plan = vision::plan_of(rule, picture().size), .patches = {}};
  const std::vector<float> planes = npy_floats(folder() + family.name + ".pixels.npy");
  const size_t side = rule.patch_size;
  const size_t n_patch = 3 * side * side;
  pixels.patches.resize(pixels.plan.n_patches * n_patch);
  EXPECT_EQ(planes.size(), pixels.patches.size());
  if (planes.size() != pixels.patches.size()) return pixels;
  const float* of_tile = planes.data();
  for (const vision::Tile& tile : pixels.plan.tiles) {
    const size_t width = tile.size.width;
    const size_t height = tile.size.height;
    for (size_t i = 0; i < size_t{tile.rows} * tile.cols; ++i) {
      const vision::PatchPlace place = vision::place_of_patch(rule, tile, i);
      float* out = &pixels.patches[(tile.first_patch + i) * n_patch];
      for (size_t c = 0; c < 3; ++c)
        for (size_t y = 0; y < side; ++y, out += side)
          std::copy_n(of_tile + (c * height + place.row * side + y) * width + place.col * side,
                      side, out);
    }
    of_tile += 3 * width * height;
  }
  return pixels;
}

vision::Pixels pixels_of_picture(const vision::Rule& rule) {
  return vision::preprocess(rule, picture());
}

image::Picture drawn(image::Size size) {
  image::Picture picture{.size = size, .rgb = {}};
  picture.rgb.reserve(size_t{3} * size.width * size.height);
  for (uint32_t y = 0; y < size.height; ++y)
    for (uint32_t x = 0; x < size.width; ++x)
      for (uint32_t c = 0; c < 3; ++c)
        picture.rgb.push_back(static_cast<uint8_t>(x * (c + 3) + y * (5 - c) + (x * y) / 7));
  return picture;
}

std::vector<std::byte> changed(const gguf::File& file, const Change& change) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata())
    if (entry.key != change.drop_key) writer.set(entry.key, entry.value);
  std::vector<std::byte> zeros;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == change.drop_tensor) continue;
    std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
    if (tensor.name == change.turn_tensor) std::swap(shape.front(), shape.back());
    const std::string name = change.rename ? change.rename(tensor.name) : tensor.name;
    if (tensor.name == change.retype_tensor) {
      constexpr uint32_t kI16 = 25;
      zeros.resize(tensor.n_elements() * 2);
      writer.add_tensor(name, kI16, shape, zeros);
    } else {
      writer.add_tensor(name, tensor.type, shape, tensor.data);
    }
  }
  if (change.add) change.add(writer);
  return writer.to_bytes();
}

std::vector<std::byte> encoded(const gguf::TensorInfo& tensor, quant::Type type) {
  const size_t n = tensor.n_elements();
  std::vector<std::byte> bytes(quant::row_bytes(type, n));
  quant::row(type).encode(reinterpret_cast<const float*>(tensor.data.data()), n, bytes.data());
  return bytes;
}

std::vector<std::byte> with_matrices(const gguf::File& file, quant::Type type) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  std::vector<std::vector<std::byte>> matrices;
  matrices.reserve(file.tensors().size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
    const quant::TypeRow& row = quant::row(type);
    const bool is_matrix = tensor.n_dims > 1 && tensor.shape[1] > 1 && tensor.type == 0 &&
                           tensor.name.ends_with(".weight") && tensor.shape[0] % row.group_len == 0;
    if (!is_matrix) {
      writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
      continue;
    }
    matrices.push_back(encoded(tensor, type));
    writer.add_tensor(tensor.name, static_cast<uint32_t>(type), shape, matrices.back());
  }
  return writer.to_bytes();
}

Loaded load(const gguf::File& file, const kernels::KernelTable& kernels, bool packs) {
  Loaded loaded;
  if (packs) {
    loaded.packed = std::make_unique<nn::PackedWeights>(kernels, arch::max_packed_bytes(file),
                                                        [](std::span<const std::byte>) {});
  }
  loaded.encoder = arch::load_picture_encoder(file, {.packed = loaded.packed.get()});
  if (packs) loaded.packed->pack();
  return loaded;
}

std::vector<float> run(const arch::PictureEncoder& encoder, const kernels::KernelTable& kernels,
                       const arch::PictureBatch& batch, int n_threads) {
  arch::PictureLimits limits{.n_tiles = batch.tiles.size(),
                             .n_threads = static_cast<size_t>(n_threads)};
  size_t n_tokens = 0;
  for (const vision::Tile& tile : batch.tiles) {
    const size_t n = size_t{tile.rows} * tile.cols;
    limits.n_patches += n;
    limits.n_tile_patches = std::max(limits.n_tile_patches, n);
    n_tokens += tile.n_tokens();
  }
  cpu::ThreadTeam team(n_threads);
  tensor::Arena arena;
  tensor::Arena kept;  // what a caller keeps: state and rows
  const size_t n_state = encoder.state_floats(limits.n_patches, limits.n_tiles);
  const std::span<float> state(kept.array<float>(n_state), n_state);
  std::vector<float> rows(n_tokens * encoder.row_floats(), std::numeric_limits<float>::quiet_NaN());
  encoder.check(batch.tiles);
  for (size_t stage = 0; stage < encoder.info().n_stages; ++stage)
    encoder.run_stage({kernels, team, arena}, batch, stage, state,
                      {rows.data(), n_tokens, encoder.row_floats()});
  EXPECT_LE(arena.n_bytes(), encoder.scratch_bytes(kernels, limits));
  return rows;
}

std::vector<float> run(const arch::PictureEncoder& encoder, const kernels::KernelTable& kernels,
                       const vision::Pixels& pixels, int n_threads) {
  return run(encoder, kernels, {.patches = pixels.patches, .tiles = pixels.plan.tiles}, n_threads);
}

double relative_difference(const std::vector<float>& values, const std::vector<float>& expected) {
  EXPECT_EQ(values.size(), expected.size());
  if (values.size() != expected.size()) return INFINITY;
  double squares = 0.0;
  double differences = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const double wanted = expected[i];
    squares += wanted * wanted;
    differences += (value - wanted) * (value - wanted);
  }
  return std::sqrt(differences / squares);
}

}  // namespace billow::pictures
