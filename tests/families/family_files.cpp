#include "families/family_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

#include "base/json.h"

namespace billow::families {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string families_folder() { return BILLOW_SOURCE_DIR "/../shared/data/families"; }

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  if (!std::filesystem::is_directory(families_folder())) return names;
  for (const auto& entry : std::filesystem::directory_iterator(families_folder()))
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
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

Family read_family(const std::string& name) {
  const std::string stem = families_folder() + "/" + name;
  const Json about = Json::parse(read_file(stem + ".json"));
  Family family{.name = name,
                .path = stem + ".gguf",
                .architecture = about.at("architecture"),
                .kl_llama_cpp = about.at("kl_llama_cpp"),
                .tokens = about.at("tokens"),
                .logits = read_npy(stem + ".npy")};
  if (family.tokens.empty() || family.logits.n_rows != family.tokens.size())
    throw std::runtime_error(stem + ".npy: has not one row for each token of the .json file");
  return family;
}

}  // namespace billow::families
