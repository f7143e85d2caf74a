// Turns a Modelfile into a request for /api/create and a list of the local files that the request
// needs. Lists folders, but reads no files. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "store/modelfile.h"

namespace billow::cli {

struct LocalFile {
  std::string name;  // the name in the request, relative to the folder in FROM
  std::string path;
  float scale = 1.0f;  // for an adapter
  bool operator==(const LocalFile&) const = default;
};

struct CreatePlan {
  std::string request;  // a JSON object, without the files
  std::vector<LocalFile> files;
  std::vector<LocalFile> adapters;
  std::vector<LocalFile> draft_files;
};

// Builds the plan. Paths are relative to `folder`, the folder of the Modelfile. Calls `warn` with a
// line for each parameter without effect. Throws Error: kNotFound for a path that does not exist,
// kInvalidInput for other errors of the Modelfile.
CreatePlan plan_create(const store::Modelfile& modelfile, const std::string& folder,
                       const std::function<void(const std::string&)>& warn);

// Returns an absolute path. Expands "~" and "~user"; relative paths start at `folder`. Throws Error
// (kNotFound) for an unknown user.
std::string expanded_path(const std::string& path, const std::string& folder);

// Throws Error (kInvalidInput) if `text` contains "://" but is neither the address of a GGUF file
// nor the name of a model.
void check_address(const std::string& text);

// Returns whether a word of the command line is a path on this machine, not a model of the server.
// Decides by the word's form ("./m", "m.gguf"). A word that could also be a name with a tag is a
// path only if the file exists.
bool is_model_path(const std::string& word);
// Returns the server's name for the model at a path: "file/STEM:SUM". STEM comes from the last
// part of the path, SUM is a checksum of the absolute path.
std::string kept_name(const std::string& path);
// Returns the server's name for the model at an address: "web/STEM:SUM". REQUIRES:
// registry::is_file_address(url).
std::string kept_name_of_address(const std::string& url);

// Whether links may lead out of a folder: for files that do not leave this machine.
enum class Links : uint8_t { kInside, kAnywhere };

// Returns the weights in a folder, of the first kind that is found. For weights that are not GGUF
// files, adds the files that describe them. Throws Error (kInvalidInput) if there are no weights,
// or for a link that leads where it may not.
std::vector<LocalFile> model_files(const std::string& folder, Links links = Links::kInside);

}  // namespace billow::cli
