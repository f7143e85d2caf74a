// billow convert: converts a folder of safetensors to a GGUF file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/client/create_plan.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/output_file.h"
#include "cli/progress_lines.h"
#include "convert/convert.h"
#include "gguf/file.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string folder;
  std::string output;              // empty: NAME-TYPE.gguf in the current folder
  std::string projector;           // empty: mmproj-OUTPUT next to OUTPUT
  bool no_projector = false;       // only the text model
  bool only_projector = false;     // OUTPUT is the projector
  bool with_projector = false;     // another run makes the projector
  std::string base;                // for an adapter: folder or GGUF file of its base model
  std::string type;                // empty: F16, or F32 for an adapter
  std::string name;                // empty: the folder's name
  std::vector<std::string> files;  // "NAME\nPATH", instead of a folder
  double scale = 1.0;              // for an adapter
  bool json = false;
  bool progress_json = false;
};

// Returns the name of the model in a folder. In the cache of Hugging Face, folders are named
// models--OWNER--NAME/snapshots/COMMIT.
std::string folder_name(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const std::string owner = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() == "snapshots" && owner.starts_with("models--"))
    return owner.substr(owner.rfind("--") + 2);
  return path.filename().string();
}

std::vector<convert::SourceFile> sources_of(const ConvertOptions& options) {
  std::vector<convert::SourceFile> files;
  for (const std::string& text : options.files) {
    const size_t end = text.find('\n');
    if (end == std::string::npos)
      throw Error(ErrorCode::kInvalidInput, "--file needs NAME, a newline and PATH");
    files.push_back({text.substr(0, end), text.substr(end + 1)});
  }
  if (!files.empty()) return files;
  if (options.folder.empty()) refuse_usage("give the folder to convert");
  if (!store::is_folder(options.folder))
    throw Error(ErrorCode::kNotFound, options.folder + ": there is no such folder");
  // The cache of Hugging Face has links to its files, which are in another folder.
  for (const LocalFile& file : model_files(options.folder, Links::kAnywhere))
    files.push_back({file.name, file.path});
  return files;
}

bool is_adapter(const std::vector<convert::SourceFile>& files) {
  return std::ranges::find(files, "adapter_config.json", &convert::SourceFile::name) != files.end();
}

std::string config_of_base(const ConvertOptions& options) {
  const std::string path = (fs::path(options.base) / "config.json").string();
  if (!fs::exists(path)) throw Error(ErrorCode::kNotFound, path + ": there is no such file");
  return path;
}

// Converts an adapter. Reads only the metadata of a GGUF base, or only config.json of a folder.
void convert_adapter(const std::vector<convert::SourceFile>& files, const ConvertOptions& options,
                     const convert::Options& choice, const convert::Listener& listener,
                     const gguf::Writer::Sink& sink) {
  if (options.base.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                options.folder +
                    " is an adapter; give the model that it was made for with --base: its folder "
                    "(config.json is enough) or its GGUF file");
  }
  if (!store::is_folder(options.base)) {
    const gguf::File base = gguf::File::open_header(options.base, gguf::StringArrays::kSkipped);
    return convert::convert_adapter(files, base, choice, listener, sink);
  }
  const std::vector<convert::SourceFile> base = {{"config.json", config_of_base(options)}};
  convert::convert_adapter(files, base, choice, listener, sink);
}

void check_projector_options(const ConvertOptions& options, bool of_adapter) {
  const int n = (options.projector.empty() ? 0 : 1) + (options.no_projector ? 1 : 0) +
                (options.only_projector ? 1 : 0);
  if (n > 1)
    throw Error(ErrorCode::kInvalidInput,
                "give only one of --mmproj, --no-mmproj and --only-mmproj");
  if (options.projector == kStandardOutput)
    throw Error(ErrorCode::kInvalidInput,
                "--mmproj needs a file; for standard output, give --only-mmproj and -");
  if (n > 0 && of_adapter)
    throw Error(ErrorCode::kInvalidInput, options.folder + " is an adapter: it has no projector");
}

convert::Options checked_options(const ConvertOptions& options, bool of_adapter) {
  if (!of_adapter && (!options.base.empty() || options.scale != 1.0)) {
    throw Error(
        ErrorCode::kInvalidInput,
        fmt::format("{} is not an adapter (it has no adapter_config.json), so {} does not apply",
                    options.folder, options.base.empty() ? "--scale" : "--base"));
  }
  check_projector_options(options, of_adapter);
  const auto type = convert::find_weight_type(options.type);
  if (!type) {
    throw Error(
        ErrorCode::kInvalidInput,
        fmt::format(
            "unknown type '{}'; use F32, F16, BF16 or Q8_0 (for other types, see billow quantize)",
            options.type));
  }
  return {.name = options.name.empty() ? folder_name(options.folder) : options.name,
          .weight_type = *type,
          .adapter_scale = options.scale};
}

// Returns the name of llama.cpp's users: "mmproj-" and the name of the model's file.
std::string projector_name(const std::string& output) {
  const fs::path path = output;
  return (path.parent_path() / ("mmproj-" + path.filename().string())).string();
}

std::string output_of(const ConvertOptions& options, const convert::Options& choice) {
  if (!options.files.empty()) return std::string(kStandardOutput);
  if (!options.output.empty()) return options.output;
  // The name can be ORG/MODEL.
  std::string last = fs::path(choice.name).filename().string();
  if (last.empty()) last = folder_name(options.folder);
  const std::string name = fmt::format("{}-{}.gguf", last, options.type);
  return options.only_projector ? projector_name(name) : name;
}

// Returns the file for the projector next to the model's file; empty if there is none.
std::string projector_output(const ConvertOptions& options, const std::string& output,
                             const std::vector<convert::SourceFile>& files) {
  if (options.no_projector || options.only_projector || is_adapter(files)) return "";
  if (!options.projector.empty()) return options.projector;
  if (output == kStandardOutput || !convert::has_projector(files)) return "";
  return projector_name(output);
}

// Returns whether two paths are the same file, or will be when both exist.
bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  if (fs::equivalent(one, other, ignored)) return true;
  const fs::path place = fs::weakly_canonical(fs::absolute(one), ignored);
  return !place.empty() && place == fs::weakly_canonical(fs::absolute(other), ignored);
}

// Refuses a new file that would replace the other new file or a file that is read.
void check_outputs(const ConvertOptions& options, const std::string& output,
                   const std::string& projector, const std::vector<convert::SourceFile>& files) {
  for (const std::string& made : {output, projector}) {
    if (made.empty() || made == kStandardOutput) continue;
    const bool is_read = std::ranges::any_of(
        files, [&](const convert::SourceFile& file) { return is_same_file(made, file.path); });
    const bool is_base =
        !options.base.empty() && (is_same_file(made, options.base) ||
                                  is_same_file(made, fs::path(options.base) / "config.json"));
    if (is_read || is_base)
      throw Error(ErrorCode::kInvalidInput, made + " is part of the input; give another OUTPUT");
  }
  if (!projector.empty() && output != kStandardOutput && is_same_file(output, projector))
    throw Error(ErrorCode::kInvalidInput,
                output + " cannot be the model and the projector; give --mmproj another file");
}

// A file of the conversion, complete after commit().
struct Made {
  explicit Made(const std::string& to) : path(to), file(to) {}
  gguf::Writer::Sink sink() {
    return [this](std::span<const std::byte> piece) {
      file.write(piece);
      n_bytes += piece.size();
    };
  }

  std::string path;
  OutputFile file;
  uint64_t n_bytes = 0;
};

void report(const Made& model, const Made* projector, const std::vector<std::string>& notes,
            bool as_json) {
  if (model.path == kStandardOutput) return;
  Json outcome = {{"output", utf8::sanitized(model.path)}, {"bytes", model.n_bytes}};
  std::string text = fmt::format("{}, {}\n", model.path, format_byte_size(model.n_bytes));
  if (projector != nullptr) {
    outcome["mmproj"] = utf8::sanitized(projector->path);
    outcome["mmproj_bytes"] = projector->n_bytes;
    text += fmt::format("{}, {}\n", projector->path, format_byte_size(projector->n_bytes));
  }
  outcome["notes"] = notes;
  if (as_json) text = outcome.dump(2) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void make(ConvertOptions options) {
  const std::vector<convert::SourceFile> files = sources_of(options);
  const bool of_adapter = is_adapter(files);
  if (options.type.empty()) options.type = of_adapter ? "F32" : "F16";
  convert::Options choice = checked_options(options, of_adapter);
  const std::string output = output_of(options, choice);
  const std::string second_output = projector_output(options, output, files);
  check_outputs(options, output, second_output, files);
  const Interrupt interrupt;
  StatusLine status;
  ProgressLines lines;
  std::vector<std::string> notes;
  const convert::Listener listener = {
      .note =
          [&](const std::string& line) {
            options.progress_json ? ProgressLines::note(line) : notes.push_back(line);
          },
      .progress =
          [&](uint64_t n_done, uint64_t n_total) {
            if (const int signal = interrupt.signal()) {
              status.erase();
              throw CLI::RuntimeError(exit_status_of(signal));
            }
            options.progress_json ? lines.show(n_done, n_total)
                                  : status.show("converting " + choice.name, n_done, n_total);
          }};
  Made model(output);
  std::optional<Made> projector;
  if (!second_output.empty()) {
    projector.emplace(second_output);
    choice.part = convert::Part::kPictures;
    convert::convert(files, choice, listener, projector->sink());
  }
  choice.part = options.only_projector ? convert::Part::kPictures : convert::Part::kText;
  choice.with_projector = projector.has_value() || options.with_projector;
  if (of_adapter)
    convert_adapter(files, options, choice, listener, model.sink());
  else
    convert::convert(files, choice, listener, model.sink());
  if (projector) projector->file.commit();
  model.file.commit();
  status.erase();
  for (const std::string& note : notes) std::fprintf(stderr, "billow: note: %s\n", note.c_str());
  report(model, projector ? &*projector : nullptr, notes, options.json);
}

void run(const ConvertOptions& options) {
  if (!options.progress_json) return make(options);
  ProgressLines::with_errors([&] { make(options); });
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "Convert a folder of safetensors, a model or an adapter, to a GGUF file");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("FOLDER", options->folder,
                      "A model in the format of Hugging Face's library (safetensors, config.json "
                      "and tokenizer.json), or an adapter in the format of peft "
                      "(adapter_config.json and adapter_model.safetensors)");
  command->add_option(
      "OUTPUT", options->output,
      "The new file, or - for standard output; default: NAME-TYPE.gguf in the current folder");
  command->add_option(
      "--outtype", options->type,
      "Type of the matrices: F32, F16, BF16 or Q8_0, which makes projectors F16; default: F16, or "
      "F32 for an adapter");
  command->add_option("--mmproj", options->projector,
                      "File for the projector, the part of a vision-language model that reads "
                      "pictures; default: mmproj-OUTPUT next to OUTPUT");
  command->add_flag("--no-mmproj", options->no_projector,
                    "Convert only the text model, without the projector");
  command->add_flag("--only-mmproj", options->only_projector,
                    "Convert only the projector, to OUTPUT");
  command->add_option("--base", options->base,
                      "For an adapter: its base model, a folder with config.json or a GGUF file");
  command->add_option("--scale", options->scale,
                      "For an adapter: factor for its changes to the model (1)");
  command->add_option("--name", options->name,
                      "general.name in the file; default: the name of the folder");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--progress-json", options->progress_json,
                    "Report progress, notes and errors as lines of JSON on standard error");
  // The server uses --file, because its files have other names. The new file goes to standard
  // output.
  command->add_option("--file", options->files, "NAME, a new line, and PATH")->group("");
  command->add_flag("--with-mmproj", options->with_projector)->group("");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
