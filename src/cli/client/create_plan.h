// What `create` sends, from a Modelfile: the request, and the files of this machine that it speaks
// of. Reads folders, not files; any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "store/modelfile.h"

namespace billow::cli {

struct LocalFile {
  std::string name;  // as the request calls it: relative, to the folder that FROM names
  std::string path;
  float scale = 1.0f;  // of an adapter
  bool operator==(const LocalFile&) const = default;
};

struct CreatePlan {
  std::string request;  // a JSON object, without the files
  std::vector<LocalFile> files;
  std::vector<LocalFile> adapters;
  std::vector<LocalFile> draft_files;
};

// Paths are relative to `folder`, that of the Modelfile. `warn` is given a line about each
// parameter that has no effect. Throws Error (kInvalidInput, kNotFound) for paths that do not lead
// to a model.
CreatePlan plan_create(const store::Modelfile& modelfile, const std::string& folder,
                       const std::function<void(const std::string&)>& warn);

// "~", "~user" and what is relative to `folder`, as an absolute path. Throws Error (kNotFound) for
// a user who is unknown.
std::string expanded_path(const std::string& path, const std::string& folder);

// Throws Error (kInvalidInput) for what has "://" in it and is neither the address of a GGUF file
// nor the name of a model.
void check_address(const std::string& text);

// Whether a word of the command line means a file or folder of this machine rather than a model of
// the server: by how it looks ("./m", "m.gguf"). What may be a name with a tag, too, is a path
// where such a file is there.
bool is_model_path(const std::string& word);
// The name under which the model at a path is kept: "file/STEM:SUM", with a sum of the whole path.
std::string kept_name(const std::string& path);
// The name under which the model of an address is kept: "web/STEM:SUM". REQUIRES:
// registry::is_file_address(url).
std::string kept_name_of_address(const std::string& url);

// The weights in a folder, of the kind that is found first, and, beside weights that are no GGUF
// files, what describes them. Throws Error (kInvalidInput) where there are none, and for a link
// that leads out of the folder.
std::vector<LocalFile> model_files(const std::string& folder);

}  // namespace billow::cli
