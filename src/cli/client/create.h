// Creates models from files of this machine. Use it from the main thread.
#pragma once

#include <string>

#include "cli/client/api_client.h"

namespace billow::cli {

// Creates a model on the server from a GGUF file, the first file of a split, or a folder of
// weights. Returns the model's name. Keeps an existing model that is newer than the files. Throws
// Error (kNotFound) if the path does not exist.
std::string keep_model(ApiClient& client, const std::string& path);

// Makes the server fetch the GGUF file at a web address, or all files of a split. Returns the
// model's name. Keeps a model that the server has already fetched. REQUIRES:
// registry::is_file_address(url).
std::string keep_web_model(ApiClient& client, const std::string& url);

}  // namespace billow::cli
