// Parses any bytes as a vocabulary file. The file is rejected with an Error, or gives a vocabulary
// that can be written. The reader accepts it, or rejects it with one line. The first byte selects
// the file, whether the model generates text, and the number of rows; the other files of the model
// are small and valid.
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/test_folder.h"
#include "convert/chat_templates.h"
#include "convert/sampling_defaults.h"
#include "convert/vocabulary.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace billow;

// Most vocabularies of fuzzing are tiny, and the time of a run depends on the rows.
constexpr uint32_t kFewRows = 32;
constexpr uint32_t kManyRows = 300;

// The name of the file with the input, and the name and content of another file.
struct Case {
  const char* name;
  const char* other_name;
  const char* other;
};
constexpr const char* kTokenizer =
    R"({"added_tokens":[{"id":3,"content":"<|end|>","special":true}],
        "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
        "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";
constexpr std::array kCases{Case{"tokenizer.json", nullptr, nullptr},
                            Case{"tokenizer.model", nullptr, nullptr},
                            Case{"tekken.json", nullptr, nullptr},
                            Case{"tiktoken.model", nullptr, nullptr},
                            Case{"merges.txt", "vocab.json", R"({"a":0,"b":1,"ab":2})"},
                            Case{"vocab.json", "merges.txt", "a b\n"},
                            Case{convert::kWorldFile, nullptr, nullptr},
                            Case{"tokenizer_config.json", "tokenizer.json", kTokenizer},
                            Case{"config.json", "tokenizer.json", kTokenizer},
                            Case{"generation_config.json", "tokenizer.json", kTokenizer},
                            Case{"added_tokens.json", "tokenizer.model", "\n\3\n\1a"},
                            Case{"vocab.txt", nullptr, nullptr}};

std::string written(const char* name, std::string_view bytes) {
  static const TestFolder folder;
  const std::string path = folder.file(name);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// Returns the error; empty if there is none.
template <typename Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    BILLOW_CHECK(!std::string_view(error.what()).empty());
    return error.what();
  }
  return "";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Case& chosen = kCases[data[0] % kCases.size()];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<convert::SourceFile> files{{chosen.name, written(chosen.name, bytes)}};
  if (chosen.other_name != nullptr)
    files.push_back({chosen.other_name, written(chosen.other_name, chosen.other)});
  const convert::Sources sources(files);
  gguf::Writer writer;
  // These errors can quote line ends: convert() makes one line of each error.
  (void)error_of([&] { convert::write_chat_templates(sources, writer); });
  (void)error_of([&] { convert::write_sampling_defaults(sources, writer); });
  const size_t options = data[0] / kCases.size();
  const auto read = options % 2 == 0 ? convert::read_language_vocabulary : convert::read_vocabulary;
  const uint32_t n_rows = options / 2 % 2 == 0 ? kFewRows : kManyRows;
  std::vector<std::byte> file;
  (void)error_of([&] {
    const convert::Vocabulary vocabulary = read(sources, n_rows);
    BILLOW_CHECK(vocabulary.pieces.size() == n_rows);
    vocabulary.write(writer);
    file = writer.to_bytes();
  });
  if (file.empty()) return 0;
  const std::string why = error_of(
      [&] { tokenizer::Tokenizer::load(gguf::File::parse(file, "fuzz")).encode("a b<|end|>1"); });
  BILLOW_CHECK(why.find('\n') == std::string::npos);
  return 0;
}
