#include "api/quantize_work.h"

#include "api/file_work.h"

namespace billow::api {

void quantize_file(const std::string& program, const QuantizeJob& job,
                   const std::function<void(std::span<const std::byte> bytes)>& sink) {
  run_file_work(program,
                {.command = "quantize",
                 .arguments = {"--", job.path, "-", job.type},
                 .listener = {.progress = job.progress},
                 .stop = job.stop},
                sink);
}

}  // namespace billow::api
