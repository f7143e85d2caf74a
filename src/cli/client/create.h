// Models made of files of this machine. For the main thread.
#pragma once

#include <string>

#include "cli/client/api_client.h"

namespace billow::cli {

// Has the server keep the model of a GGUF file, of the first file of a split, or of a folder of
// weights; its name there. A model that is newer than its files stays as it is. Throws Error
// (kNotFound) where nothing is at the path.
std::string keep_model(ApiClient& client, const std::string& path);

// Has the server fetch and keep the GGUF file at an address of the web, or all files of a split;
// its name there. A model that the server has fetched before stays as it is. REQUIRES:
// registry::is_file_address(url).
std::string keep_web_model(ApiClient& client, const std::string& url);

}  // namespace billow::cli
