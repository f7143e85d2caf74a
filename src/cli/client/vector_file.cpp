#include "cli/client/vector_file.h"

#include <utility>

#include "api/vector_text.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/numpy.h"

namespace billow::cli {

VectorFormat vector_format_of(const std::string& path) {
  const std::string name = lower_case(path);
  if (name.ends_with(".parquet")) {
    throw Error(ErrorCode::kInvalidInput,
                path + ": Parquet is not supported; write .npy or .jsonl and convert the file");
  }
  return name.ends_with(".npy") ? VectorFormat::kNumpy : VectorFormat::kJsonLines;
}

void append_json_line(std::string& text, uint64_t row, std::span<const float> vector) {
  text += "{\"index\":" + std::to_string(row) + ",\"embedding\":";
  api::append_vector(text, vector);
  text += "}\n";
}

VectorFile::VectorFile(std::string path, VectorFormat format, std::string job)
    : part_(std::move(path), std::move(job)), format_(format), n_values_(part_.fact("values")) {
  if (format_ == VectorFormat::kNumpy && part_.n_bytes() == 0) part_.write(numpy_header(0, 0));
}

void VectorFile::append(uint64_t row, std::span<const float> vector) {
  if (n_rows() == 0) n_values_ = vector.size();
  if (vector.size() != n_values_) {
    throw Error(ErrorCode::kInvalidInput,
                "the server returned a vector of " + std::to_string(vector.size()) +
                    " values for row " + std::to_string(row) + ", but of " +
                    std::to_string(n_values_) + " values for earlier rows; has the model changed?");
  }
  std::string bytes;
  if (format_ == VectorFormat::kJsonLines) {
    append_json_line(bytes, row, vector);
  } else {
    append_numpy_values(bytes, vector);
  }
  part_.append(bytes);
}

void VectorFile::mark(uint64_t input_offset) { part_.mark(input_offset, {{"values", n_values_}}); }

void VectorFile::publish() {
  part_.publish(format_ == VectorFormat::kNumpy ? numpy_header(n_rows(), n_values_) : "");
}

}  // namespace billow::cli
