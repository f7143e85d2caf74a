#include "families/family_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <span>
#include <stdexcept>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "convert/float_weights.h"
#include "gguf/file.h"
#include "quant/type.h"

namespace billow::families {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> folders() {
  return {source_dir() + "/tests/families/data", shared_folder()};
}

// Returns the path of a copy of the model with its BF16 matrices as floats. If the model has no
// BF16 matrices, returns its own path.
std::string with_floats(const std::string& path, const std::string& scratch) {
  constexpr auto kBf16 = static_cast<uint32_t>(quant::Type::kBF16);
  const gguf::File file = gguf::File::open(path);
  const auto is_bf16 = [](const gguf::TensorInfo& tensor) { return tensor.type == kBf16; };
  if (std::ranges::none_of(file.tensors(), is_bf16)) return path;
  std::filesystem::create_directories(scratch);
  const std::string out = scratch + "/" + std::filesystem::path(path).filename().string();
  convert::with_float_weights(file).write(out);
  return out;
}

}  // namespace

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

std::string shared_folder() { return source_dir() + "/../shared/data/families"; }

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const std::string& folder : folders()) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

Matrix read_npy(const std::string& path) {
  constexpr size_t kBeforeHeader = 10;  // magic, version, two bytes of length
  const std::string bytes = read_file(path);
  const auto refuse = [&](const char* what) { throw std::runtime_error(path + ": " + what); };
  if (bytes.size() < kBeforeHeader || bytes.substr(1, 5) != "NUMPY" || bytes[6] != 1)
    refuse("is no .npy file of version 1");
  const size_t n_header =
      static_cast<unsigned char>(bytes[8]) + size_t{256} * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < kBeforeHeader + n_header) refuse("is cut off");
  const std::string header = bytes.substr(kBeforeHeader, n_header);
  const std::regex form("'descr': '<f4', 'fortran_order': False, 'shape': \\((\\d+), (\\d+)\\)");
  std::smatch found;
  if (!std::regex_search(header, found, form)) refuse("is no matrix of float32 by rows");
  Matrix matrix{std::stoul(found[1]), std::stoul(found[2]), {}};
  const size_t n_bytes = bytes.size() - kBeforeHeader - n_header;
  if (n_bytes / sizeof(float) / matrix.n_cols != matrix.n_rows || n_bytes % sizeof(float) != 0)
    refuse("is not as long as its shape says");
  matrix.values.resize(matrix.n_rows * matrix.n_cols);
  std::memcpy(matrix.values.data(), bytes.data() + kBeforeHeader + n_header, n_bytes);
  return matrix;
}

Family read_family(const std::string& name, const std::string& scratch) {
  std::string stem;
  for (const std::string& folder : folders())
    if (stem.empty() && std::filesystem::exists(folder + "/" + name + ".gguf"))
      stem = folder + "/" + name;
  if (stem.empty()) throw std::runtime_error(name + ".gguf: is in none of the folders");
  const Json about = Json::parse(read_file(stem + ".json"));
  Family family{.name = name,
                .path = with_floats(stem + ".gguf", scratch),
                .architecture = about.at("architecture"),
                .kl_llama_cpp = {},
                .tokens = about.at("tokens"),
                .logits = read_npy(stem + ".npy")};
  if (!about.at("kl_llama_cpp").is_null()) family.kl_llama_cpp = about.at("kl_llama_cpp");
  if (family.tokens.empty() || family.logits.n_rows != family.tokens.size())
    throw std::runtime_error(stem + ".npy: has not one row for each token of the .json file");
  return family;
}

}  // namespace billow::families
