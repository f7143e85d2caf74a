// billow convert: makes a GGUF file of a folder of safetensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/client/create_plan.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "convert/convert.h"
#include "gguf/atomic_file.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string folder;
  std::string output;  // empty: in this folder
  std::string base;    // the folder of an adapter's base
  std::string type;    // empty: F16, of an adapter F32
  std::string name;    // empty: the folder's
  bool json = false;
};

std::string folder_name(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

std::vector<convert::SourceFile> source_files(const std::string& folder) {
  if (!store::is_folder(folder))
    throw Error(ErrorCode::kNotFound, folder + ": there is no such folder");
  std::vector<convert::SourceFile> files;
  for (const LocalFile& file : model_files(folder)) files.push_back({file.name, file.path});
  return files;
}

bool is_adapter_folder(const std::string& folder) {
  return fs::exists(fs::path(folder) / "adapter_config.json");
}

std::vector<convert::SourceFile> adapter_files(const std::string& folder) {
  std::vector<convert::SourceFile> files;
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    const std::string path = (fs::path(folder) / name).string();
    if (!fs::exists(path)) throw Error(ErrorCode::kNotFound, path + ": there is no such file");
    files.push_back({name, path});
  }
  return files;
}

// Of an adapter's base only this is read.
std::vector<convert::SourceFile> base_files(const ConvertOptions& options) {
  if (options.base.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                options.folder +
                    " is an adapter; give the folder of the model that it was made for with "
                    "--base (its config.json is enough)");
  }
  const std::string path = (fs::path(options.base) / "config.json").string();
  if (!fs::exists(path)) throw Error(ErrorCode::kNotFound, path + ": there is no such file");
  return {{"config.json", path}};
}

convert::Options checked_options(const ConvertOptions& options, bool is_adapter) {
  if (!is_adapter && !options.base.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                options.folder +
                    " is no adapter (it has no adapter_config.json), so --base has no "
                    "meaning");
  }
  const auto type = convert::find_weight_type(options.type);
  if (!type) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("unknown type '{}'; it may be one of F32, F16, BF16, Q8_0 (for others "
                            "see billow quantize)",
                            options.type));
  }
  return {.name = options.name.empty() ? folder_name(options.folder) : options.name,
          .weight_type = *type};
}

void run(ConvertOptions options) {
  const bool is_adapter = is_adapter_folder(options.folder);
  if (options.type.empty()) options.type = is_adapter ? "F32" : "F16";
  const convert::Options choice = checked_options(options, is_adapter);
  const std::string output = options.output.empty()
                                 ? fmt::format("{}-{}.gguf", choice.name, options.type)
                                 : options.output;
  const std::vector<convert::SourceFile> files =
      is_adapter ? adapter_files(options.folder) : source_files(options.folder);
  const Interrupt interrupt;
  StatusLine status;
  uint64_t n_bytes = 0;
  std::vector<std::string> notes;
  const convert::Listener listener = {
      .note = [&](const std::string& line) { notes.push_back(line); },
      .progress =
          [&](uint64_t n_done, uint64_t n_total) {
            if (const int signal = interrupt.signal()) {
              status.erase();
              throw CLI::RuntimeError(exit_status_of(signal));
            }
            status.show("converting " + choice.name, n_done, n_total);
          }};
  gguf::AtomicFile file(output);
  const auto sink = [&](std::span<const std::byte> piece) {
    file.write(piece);
    n_bytes += piece.size();
  };
  if (is_adapter)
    convert::convert_adapter(files, base_files(options), choice, listener, sink);
  else
    convert::convert(files, choice, listener, sink);
  file.commit();
  status.erase();
  for (const std::string& note : notes) std::fprintf(stderr, "billow: note: %s\n", note.c_str());
  const Json outcome = {{"output", utf8::sanitized(output)}, {"bytes", n_bytes}, {"notes", notes}};
  const std::string text = options.json
                               ? outcome.dump(2) + "\n"
                               : fmt::format("{}, {}\n", output, format_byte_size(n_bytes));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert",
                                         "Make a GGUF file of a folder of safetensors: a model "
                                         "or an adapter");
  auto options = std::make_shared<ConvertOptions>();
  command
      ->add_option("FOLDER", options->folder,
                   "The model as Hugging Face's library keeps it: safetensors, config.json and "
                   "tokenizer.json; or an adapter as peft keeps it: adapter_config.json and "
                   "adapter_model.safetensors")
      ->required();
  command->add_option("OUTPUT", options->output,
                      "The new file; without it NAME-TYPE.gguf in this folder");
  command->add_option("--outtype", options->type,
                      "The type of matrices: F32, F16, BF16 or Q8_0; without it F16, of adapters "
                      "F32");
  command->add_option("--base", options->base,
                      "Of an adapter: the folder of the model that it was made for, of which "
                      "config.json is read");
  command->add_option("--name", options->name, "general.name of the file; without it the folder's");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
