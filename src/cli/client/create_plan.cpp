#include "cli/client/create_plan.h"

#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "registry/web_file.h"
#include "store/digest.h"
#include "store/folder.h"
#include "store/name.h"
#include "store/parameters.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;
using store::InstructionKind;

struct Pattern {
  std::string_view begin;
  std::string_view end;
  bool below;  // also in subfolders

  bool matches(std::string_view name) const {
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) &&
           name.ends_with(end);
  }
};

// The first pattern that matches a file decides what the weights are.
constexpr Pattern kWeights[] = {{"adapter_model", ".safetensors", false},
                                {"model", ".safetensors", true},
                                {"consolidated", ".safetensors", false},
                                {"pytorch_model", ".bin", false},
                                {"consolidated", ".pth", false},
                                {"", ".gguf", false},
                                {"", ".bin", false}};
constexpr Pattern kDescriptions[] = {{"", ".json", true},
                                     {"", ".jinja", true},
                                     {"README.md", "", false},
                                     {"tokenizer.model", "", false},
                                     {"sentencepiece.bpe.model", "", false},
                                     {"", ".tiktoken", false},
                                     {"tiktoken.model", "", false},
                                     {"vocab.txt", "", false},
                                     {"merges.txt", "", false},
                                     {"rwkv_vocab_", ".txt", false}};

std::string home_of(const std::string& user) {
  const char* home = user.empty() ? std::getenv("HOME") : nullptr;
  if (home != nullptr && *home != '\0') return home;
  const passwd* entry = user.empty() ? nullptr : ::getpwnam(user.c_str());
  if (entry == nullptr) throw Error(ErrorCode::kNotFound, "~" + user + ": no such user");
  return entry->pw_dir;
}

void add_matches(std::vector<LocalFile>& files, const fs::path& folder, const std::string& below,
                 const Pattern& pattern) {
  for (const std::string& name : store::children((folder / below).string())) {
    const fs::path path = folder / below / name;
    if (pattern.matches(name) && fs::is_regular_file(path)) {
      files.push_back({(fs::path(below) / name).string(), path.string()});
    }
  }
}

std::vector<LocalFile> matches(const fs::path& folder, const Pattern& pattern) {
  std::vector<LocalFile> files;
  add_matches(files, folder, "", pattern);
  if (!pattern.below) return files;
  for (const std::string& name : store::children(folder.string())) {
    if (!name.starts_with('.') && store::is_folder((folder / name).string())) {
      add_matches(files, folder, name, pattern);
    }
  }
  return files;
}

// Rejects a link out of the folder: it could send any file of this machine to the server.
void check_inside(const fs::path& folder, const LocalFile& file) {
  const fs::path inside = fs::canonical(file.path).lexically_relative(fs::canonical(folder));
  if (inside.empty() || *inside.begin() == "..") {
    throw Error(ErrorCode::kInvalidInput, "insecure path: " + file.path +
                                              " is a link out of the folder; name its target in "
                                              "a Modelfile, or copy the file");
  }
}

bool looks_like_path(const std::string& text) {
  return text.starts_with('/') || text.starts_with("./") || text.starts_with("../") ||
         text.starts_with('~') || text.ends_with(".gguf") || text == "." || text == "..";
}

// Returns the files for `path`; empty if it does not exist.
std::vector<LocalFile> files_at(const std::string& path) {
  if (store::is_folder(path)) return model_files(path);
  if (!store::file_status(path)) return {};
  const fs::path file = path;
  std::vector<LocalFile> files{{file.filename().string(), path}};
  // Adds the other files of a split, PREFIX-00001-of-00003.gguf.
  const std::string name = files[0].name;
  const size_t at = name.rfind("-00001-of-");
  if (at == std::string::npos || !name.ends_with(".gguf")) return files;
  const std::string begin = name.substr(0, at + 1);
  const std::string end = name.substr(at + 6);  // "-of-00003.gguf"
  for (const std::string& other : store::children(file.parent_path().string()))
    if (other != name && other.size() == name.size() && other.starts_with(begin) &&
        other.ends_with(end))
      files.push_back({other, (file.parent_path() / other).string()});
  return files;
}

void add_files(std::vector<LocalFile>& files, std::vector<LocalFile> more) {
  for (LocalFile& file : more) {
    for (const LocalFile& other : files) {
      if (other.name != file.name) continue;
      throw Error(
          ErrorCode::kInvalidInput,
          other.path + " and " + file.path + ": two files have the same name; rename one of them");
    }
    files.push_back(std::move(file));
  }
}

void add_texts(Json& request, const store::Modelfile& modelfile) {
  constexpr std::pair<InstructionKind, const char*> kTexts[] = {
      {InstructionKind::kTemplate, "template"},
      {InstructionKind::kSystem, "system"},
      {InstructionKind::kRenderer, "renderer"},
      {InstructionKind::kParser, "parser"},
      {InstructionKind::kRequires, "requires"}};
  for (const auto& [kind, field] : kTexts) {
    const std::string_view value = modelfile.last(kind);
    if (!value.empty()) request[field] = value;
  }
  if (const auto licenses = modelfile.all(InstructionKind::kLicense); !licenses.empty()) {
    request["license"] = licenses;
  }
  for (const store::Instruction& instruction : modelfile.instructions) {
    if (instruction.kind != InstructionKind::kMessage) continue;
    request["messages"].push_back({{"role", instruction.key}, {"content", instruction.value}});
  }
}

// Parses PATH or PATH:SCALE. If the whole text is an existing path, it is PATH.
std::pair<std::string, float> scaled_path(const std::string& text, const std::string& folder) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || fs::exists(expanded_path(text, folder))) return {text, 1.0f};
  const char* const end = text.data() + text.size();
  float scale = 1.0f;
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, scale);
  if (error != std::errc() || stop != end || !std::isfinite(scale)) return {text, 1.0f};
  return {text.substr(0, colon), scale};
}

// Returns "SPACE/STEM:SUM", with a checksum of `whole`.
std::string name_of(const std::string& space, const fs::path& last, const std::string& whole) {
  constexpr size_t kMaxStem = 60;
  constexpr size_t kSumLength = 12;
  std::string stem = last.extension() == ".gguf" ? last.stem().string() : last.string();
  for (char& c : stem) {
    const bool is_plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
    if (!is_plain && c != '_') c = '-';
  }
  stem.erase(0, stem.find_first_not_of("-._"));
  if (stem.size() > kMaxStem) stem.resize(kMaxStem);
  if (stem.empty()) stem = "model";
  return space + "/" + stem + ":" + store::digest_of(whole).hex().substr(0, kSumLength);
}

}  // namespace

void check_address(const std::string& text) {
  if (text.find("://") == std::string::npos) return;
  if (registry::is_file_address(text) || store::parse_name(text)) return;
  throw Error(ErrorCode::kInvalidInput,
              text +
                  ": this is neither the address of a GGUF file (http or https, no user before the "
                  "host, a path that ends with .gguf) nor the name of a model");
}

bool is_model_path(const std::string& word) {
  if (registry::is_file_address(word)) return false;
  if (!looks_like_path(word)) return false;
  // "hf.co/USER/REPO:FILE.gguf" is a model in a registry.
  const bool may_be_name = store::parse_name(word) && word.find(':') != std::string::npos;
  return !may_be_name || store::file_status(expanded_path(word, ".")).has_value();
}

std::string kept_name(const std::string& path) {
  const std::string whole = fs::absolute(path).lexically_normal().string();
  fs::path last = fs::path(whole).filename();
  if (last.empty())
    last = fs::path(whole).parent_path().filename();  // a folder with a slash at its end
  return name_of("file", last, whole);
}

std::string kept_name_of_address(const std::string& url) {
  return name_of("web", registry::file_name_of(url), url);
}

std::string expanded_path(const std::string& path, const std::string& folder) {
  fs::path expanded = path;
  if (path.starts_with('~')) {
    const size_t slash = std::min(path.find('/'), path.size());
    expanded = home_of(path.substr(1, slash - 1)) + path.substr(slash);
  }
  return (fs::absolute(folder) / expanded).lexically_normal().string();
}

std::vector<LocalFile> model_files(const std::string& folder, Links links) {
  for (const Pattern& weights : kWeights) {
    std::vector<LocalFile> files = matches(folder, weights);
    if (files.empty()) continue;
    if (weights.end != ".gguf") {
      for (const Pattern& description : kDescriptions) {
        for (LocalFile& file : matches(folder, description)) files.push_back(std::move(file));
      }
    }
    if (links == Links::kInside)
      for (const LocalFile& file : files) check_inside(folder, file);
    return files;
  }
  throw Error(ErrorCode::kInvalidInput, "no Modelfile or safetensors files found");
}

CreatePlan plan_create(const store::Modelfile& modelfile, const std::string& folder,
                       const std::function<void(const std::string&)>& warn) {
  CreatePlan plan;
  Json request = Json::object();
  for (const std::string& from : modelfile.all(InstructionKind::kFrom)) {
    check_address(from);
    if (registry::is_file_address(from)) {
      request["from"] = from;
      continue;
    }
    std::vector<LocalFile> files = files_at(expanded_path(from, folder));
    if (files.empty() && looks_like_path(from)) {
      throw Error(ErrorCode::kNotFound, "FROM " + from + ": no such file or folder");
    }
    if (files.empty()) {
      request["from"] = from;
    } else {
      add_files(plan.files, std::move(files));
    }
  }
  const auto files_of = [&](const std::string& path, const char* name) {
    if (path.empty()) return std::vector<LocalFile>{};
    std::vector<LocalFile> files = files_at(expanded_path(path, folder));
    if (files.empty()) {
      throw Error(ErrorCode::kNotFound, name + (" " + path) + ": no such file or folder");
    }
    return files;
  };
  for (const std::string& text : modelfile.all(InstructionKind::kAdapter)) {
    const auto [path, scale] = scaled_path(text, folder);
    std::vector<LocalFile> files = files_of(path, "ADAPTER");
    // Trainers put checkpoints into folders below, each an adapter of its own.
    std::erase_if(files,
                  [](const LocalFile& file) { return file.name.find('/') != std::string::npos; });
    // Files in several folders can have the same names. From the second folder on, the names get a
    // prefix.
    const bool is_taken = std::ranges::any_of(files, [&](const LocalFile& file) {
      return std::ranges::find(plan.adapters, file.name, &LocalFile::name) != plan.adapters.end();
    });
    const bool is_folder = store::is_folder(expanded_path(path, folder));
    const std::string prefix =
        is_folder && is_taken ? std::to_string(plan.adapters.size()) + "/" : "";
    for (LocalFile& file : files) {
      file.name = prefix + file.name;
      file.scale = scale;
    }
    add_files(plan.adapters, std::move(files));
  }
  // A word that is not a path can be the name of a stored model, as in FROM.
  const std::string draft(modelfile.last(InstructionKind::kDraft));
  if (!draft.empty() && !looks_like_path(draft) && files_at(expanded_path(draft, folder)).empty()) {
    request["draft"] = draft;
  } else {
    plan.draft_files = files_of(draft, "DRAFT");
  }
  for (const LocalFile& file : plan.draft_files) {
    if (std::ranges::find(plan.files, file.path, &LocalFile::path) == plan.files.end()) continue;
    throw Error(ErrorCode::kInvalidInput,
                "DRAFT must not reference the same local path as FROM: " + file.path);
  }
  add_texts(request, modelfile);
  const Json parameters = store::parameters_from_text(modelfile.parameters(), warn);
  if (!parameters.empty()) request["parameters"] = parameters;
  plan.request = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  return plan;
}

}  // namespace billow::cli
