#include "llama/command.h"

#include <random>

#include "kernels/kv_names.h"

namespace billow::llama {

std::vector<std::string> command_of(const CommandOptions& options) {
  std::vector<std::string> command = {options.program};
  const auto add = [&](const char* name, const std::string& value) {
    command.insert(command.end(), {name, value});
  };
  add("--model", options.model);
  if (!options.projector.empty()) add("--mmproj", options.projector);
  for (const std::string& adapter : options.adapters) add("--lora", adapter);
  add("--host", options.socket);
  add("--ctx-size", std::to_string(options.n_cells));
  add("--parallel", std::to_string(options.n_parallel));
  add("--batch-size", std::to_string(options.n_batch));
  add("--ubatch-size", std::to_string(options.n_batch));
  add("--cache-type-k", std::string(name_of(options.kv_type)));
  add("--cache-type-v", std::string(name_of(options.kv_type)));
  add("--chat-template", "chatml");  // unused, because Billow renders the prompts
  add("--log-verbosity", "4");       // the lowest level that logs buffer sizes
  command.insert(command.end(), {"--kv-unified", "--no-jinja", "--offline", "--no-webui"});
  if (options.n_threads > 0) {
    add("--threads", std::to_string(options.n_threads));
    add("--threads-batch", std::to_string(options.n_threads));
  }
  if (options.n_gpu_layers) add("--n-gpu-layers", std::to_string(*options.n_gpu_layers));
  if (options.is_embedding) command.emplace_back("--embedding");
  if (!options.pooling.empty()) add("--pooling", options.pooling);
  return command;
}

std::string new_media_marker() {
  std::random_device random;
  std::string marker = "<__media_";
  for (int i = 0; i < 32; ++i) marker += "0123456789abcdef"[random() % 16];
  return marker + "__>";
}

std::vector<std::string> environment_of_server(const std::string& media_marker) {
  return {"LLAMA_ARG_FIT=off", "LLAMA_ARG_CACHE_RAM=0", "LLAMA_ARG_CTX_CHECKPOINTS=4",
          "LLAMA_MEDIA_MARKER=" + media_marker};
}

}  // namespace billow::llama
