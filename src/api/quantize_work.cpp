#include "api/quantize_work.h"

#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "process/run_program.h"

namespace billow::api {
namespace {

// The last lines that the process has written to standard error.
struct Report {
  std::string error;  // empty: none
  std::string code;
};

// kIo for an unknown name.
ErrorCode code_of(std::string_view name) {
  using enum ErrorCode;
  for (const ErrorCode code :
       {kInvalidInput, kNotFound, kPermissionDenied, kUnsupported, kTooLarge, kOutOfMemory}) {
    if (error_code_name(code) == name) return code;
  }
  return kIo;
}

void take_line(std::string_view line, const QuantizeJob& job, Report& report) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    report.error = std::string(line);
    return;
  }
  const auto error = json.find("error");
  if (error != json.end() && error->is_string()) {
    report.error = error->get<std::string>();
    const auto code = json.find("code");
    if (code != json.end() && code->is_string()) report.code = code->get<std::string>();
    return;
  }
  const auto done = json.find("completed");
  const auto total = json.find("total");
  const bool is_progress = done != json.end() && done->is_number_unsigned() &&
                           total != json.end() && total->is_number_unsigned();
  if (is_progress && job.progress) job.progress(done->get<uint64_t>(), total->get<uint64_t>());
}

}  // namespace

void quantize_file(const std::string& program, const QuantizeJob& job,
                   const std::function<void(std::span<const std::byte> bytes)>& sink) {
  Report report;
  const int status = process::run_program(
      {.command = {program, "quantize", "--progress-json", "--", job.path, "-", job.type},
       .on_output = sink,
       .on_line = [&](std::string_view line) { take_line(line, job, report); },
       .time = std::nullopt,
       .stop = job.stop});
  if (status == 0) return;
  const std::string what = report.error.empty()
                               ? "billow quantize ended with status " + std::to_string(status)
                               : report.error;
  throw Error(code_of(report.code), what);
}

}  // namespace billow::api
