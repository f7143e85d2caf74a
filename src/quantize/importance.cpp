#include "quantize/importance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::quantize {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied without conversion");

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, name + ": " + what);
}

// Checks the means. Larger ones would make sums of the encoders infinite.
void check_means(const Importance& importance, const std::string& name) {
  constexpr float kMaxMean = 1e20f;  // of inputs of 1e10, which no model has
  const auto is_mean = [](float value) { return value >= 0.0f && value <= kMaxMean; };
  for (const auto& [tensor, values] : importance.entries) {
    const auto wrong = std::ranges::find_if_not(values, is_mean);
    if (wrong == values.end()) continue;
    const char* what = !std::isfinite(*wrong) ? "not finite"
                       : *wrong < 0.0f        ? "less than 0"
                                              : "more than 1e20";
    refuse(name, "the entry of '" + tensor + "' has a number that is " + what +
                     "; measure the matrix again with billow imatrix");
  }
}

// ---- The older form: little-endian numbers, one after the other.

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  bool at_end() const noexcept { return bytes_.empty(); }

  int32_t number(const char* what) {
    int32_t value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  // Reads the length of the data that follows.
  size_t count(const char* what) {
    const int32_t value = number(what);
    if (value < 0) refuse(name_, std::string(what) + " is less than 0");
    return static_cast<size_t>(value);
  }

  std::string text(const char* what) {
    const std::span<const std::byte> taken = take(count(what), what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  std::vector<float> floats(const char* what) {
    const size_t n = count(what);
    if (n > bytes_.size() / sizeof(float)) end(what);
    std::vector<float> values(n);
    const std::span<const std::byte> taken = take(n * sizeof(float), what);
    std::ranges::copy(taken, std::as_writable_bytes(std::span(values)).begin());
    return values;
  }

 private:
  [[noreturn]] void end(const char* what) {
    refuse(name_, std::string("the file ends within ") + what +
                      "; it is truncated or not an importance matrix");
  }
  std::span<const std::byte> take(size_t n, const char* what) {
    if (n > bytes_.size()) end(what);
    const std::span<const std::byte> taken = bytes_.first(n);
    bytes_ = bytes_.subspan(n);
    return taken;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
};

Importance parse_numbers(std::span<const std::byte> bytes, const std::string& name) {
  Importance importance;
  Reader reader(bytes, name);
  const size_t n_entries = reader.count("the number of entries");
  if (n_entries == 0) refuse(name, "the file has no entries");
  for (size_t i = 0; i < n_entries; ++i) {
    const std::string tensor = reader.text("the name of an entry");
    const int32_t n_calls = reader.number("the calls of an entry");
    if (n_calls < 0) refuse(name, "the calls of '" + tensor + "' are less than 0");
    std::vector<float> values = reader.floats("the values of an entry");
    if (values.empty()) refuse(name, "the entry of '" + tensor + "' is empty");
    if (n_calls > 0) {
      for (float& value : values) value /= static_cast<float>(n_calls);
    }
    if (!importance.entries.emplace(tensor, std::move(values)).second) {
      refuse(name, "the entry of '" + tensor + "' appears twice");
    }
  }
  if (reader.at_end()) return importance;
  importance.n_chunks = static_cast<uint32_t>(reader.count("the number of chunks"));
  if (!reader.at_end()) importance.datasets.push_back(reader.text("the name of the text"));
  return importance;
}

// ---- The GGUF form.

const gguf::TensorInfo& counts_of(const gguf::File& file, const std::string& tensor,
                                  const std::string& name) {
  const gguf::TensorInfo* counts = file.find_tensor(tensor + std::string(kCounts));
  if (counts == nullptr) refuse(name, "the entry of '" + tensor + "' has sums without counts");
  return *counts;
}

std::vector<float> floats_of(const gguf::TensorInfo& info, const std::string& name) {
  if (info.type != static_cast<uint32_t>(quant::Type::kF32)) {
    refuse(name, "tensor '" + info.name + "' is not of type F32");
  }
  std::vector<float> values(info.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), info.data.data(), info.data.size());
  return values;
}

// Divides sums by counts. If a matrix saw no rows, all its columns get the same number.
std::vector<float> means_of(const gguf::TensorInfo& sums, const gguf::TensorInfo& counts,
                            const std::string& name) {
  std::vector<float> values = floats_of(sums, name);
  const std::vector<float> divisors = floats_of(counts, name);
  if (divisors.empty() || values.empty() || values.size() % divisors.size() != 0) {
    refuse(name, "tensor '" + counts.name + "' does not fit its sums");
  }
  const size_t n_columns = values.size() / divisors.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const float count = std::round(divisors[i / n_columns]);
    if (!std::isfinite(count) || count < 0.0f)
      refuse(name, "tensor '" + counts.name + "' has a number that is not a count");
    values[i] = count > 0.0f ? values[i] / count : 1.0f;
  }
  return values;
}

Importance parse_gguf(std::span<const std::byte> bytes, const std::string& name) {
  const gguf::File file = gguf::File::parse(bytes, name);
  Importance importance;
  const gguf::Array* datasets = file.get_string_array("imatrix.datasets");
  const auto n_chunks = file.get_uint("imatrix.chunk_count");
  if (datasets == nullptr || !n_chunks || !file.get_uint("imatrix.chunk_size")) {
    refuse(name, "it is a GGUF file but not an importance matrix: a key imatrix.* is missing");
  }
  importance.datasets.assign(datasets->strings.begin(), datasets->strings.end());
  importance.n_chunks = static_cast<uint32_t>(std::min<uint64_t>(*n_chunks, UINT32_MAX));
  for (const gguf::TensorInfo& info : file.tensors()) {
    if (info.name.ends_with(kSums)) {
      std::string tensor = info.name.substr(0, info.name.size() - kSums.size());
      std::vector<float> means = means_of(info, counts_of(file, tensor, name), name);
      importance.entries.emplace(std::move(tensor), std::move(means));
    } else if (info.name.ends_with(kCounts)) {
      const std::string tensor = info.name.substr(0, info.name.size() - kCounts.size());
      if (file.find_tensor(tensor + std::string(kSums)) == nullptr) {
        refuse(name, "the entry of '" + tensor + "' has counts without sums");
      }
    }
  }
  if (importance.entries.empty()) refuse(name, "the file has no entries");
  return importance;
}

}  // namespace

Importance parse_importance(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kMagic.size()));
  Importance importance = start == kMagic ? parse_gguf(bytes, name) : parse_numbers(bytes, name);
  check_means(importance, name);
  return importance;
}

std::vector<std::byte> gguf_form(const ImportanceSums& sums) {
  gguf::Writer writer;
  writer.set_string("general.type", "imatrix");
  const std::vector<std::string> datasets = {sums.dataset};
  writer.set_strings("imatrix.datasets", datasets);
  writer.set_uint("imatrix.chunk_count", sums.n_chunks);
  writer.set_uint("imatrix.chunk_size", sums.chunk_size);
  for (const auto& [tensor, entry] : sums.entries) {
    const uint64_t n_counts = entry.counts.size();
    const uint64_t columns[] = {entry.sums.size() / n_counts, n_counts};
    const uint64_t ones[] = {1, n_counts};
    const auto f32 = static_cast<uint32_t>(quant::Type::kF32);
    const size_t n_dims = n_counts == 1 ? 1 : 2;
    writer.add_tensor(tensor + std::string(kSums), f32, std::span(columns).first(n_dims),
                      std::as_bytes(std::span(entry.sums)));
    writer.add_tensor(tensor + std::string(kCounts), f32, std::span(ones).first(n_dims),
                      std::as_bytes(std::span(entry.counts)));
  }
  return writer.to_bytes();
}

std::vector<std::byte> older_form(const ImportanceSums& sums) {
  std::vector<std::byte> out;
  const auto put = [&](const void* data, size_t n) {
    const auto* from = static_cast<const std::byte*>(data);
    out.insert(out.end(), from, from + n);
  };
  const auto put_number = [&](size_t number) {
    const auto value = static_cast<int32_t>(number);
    put(&value, sizeof value);
  };
  const auto put_text = [&](const std::string& text) {
    put_number(text.size());
    put(text.data(), text.size());
  };
  const auto max = [](const ImportanceSums::Entry& entry) {
    return *std::ranges::max_element(entry.counts);
  };
  put_number(static_cast<size_t>(std::ranges::count_if(
      sums.entries, [&](const auto& pair) { return max(pair.second) > 0.0f; })));
  for (const auto& [tensor, entry] : sums.entries) {
    if (!(max(entry) > 0.0f)) continue;
    const float n_calls = std::ceil(max(entry) / static_cast<float>(sums.chunk_size));
    put_text(tensor);
    put_number(static_cast<size_t>(n_calls));
    put_number(entry.sums.size());
    const size_t n_columns = entry.sums.size() / entry.counts.size();
    for (size_t i = 0; i < entry.sums.size(); ++i) {
      const float count = entry.counts[i / n_columns];
      const float value = (count > 0.0f ? entry.sums[i] / count : 1.0f) * n_calls;
      put(&value, sizeof value);
    }
  }
  put_number(sums.n_chunks);
  put_text(sums.dataset);
  return out;
}

Importance read_importance(const std::string& path) {
  const MappedFile file(path);
  return parse_importance(file.bytes(), path);
}

}  // namespace billow::quantize
