#include "api/file_work.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "process/run_program.h"

namespace billow::api {
namespace {

// The error that the process has written to standard error.
struct Report {
  std::string error;  // empty: none
  std::string code;
};

// Returns kIo for an unknown name.
ErrorCode code_of(std::string_view name) {
  using enum ErrorCode;
  for (const ErrorCode code :
       {kInvalidInput, kNotFound, kPermissionDenied, kUnsupported, kTooLarge, kOutOfMemory}) {
    if (error_code_name(code) == name) return code;
  }
  return kIo;
}

std::string text_of(const Json& line, const char* field) {
  const auto found = line.find(field);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

void take_line(std::string_view line, const WorkListener& listener, Report& report) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    report.error = std::string(line);
    return;
  }
  if (const std::string error = text_of(json, "error"); !error.empty()) {
    report = {.error = error, .code = text_of(json, "code")};
    return;
  }
  if (const std::string note = text_of(json, "note"); !note.empty() && listener.note)
    listener.note(note);
  const auto done = json.find("completed");
  const auto total = json.find("total");
  const bool is_progress = done != json.end() && done->is_number_unsigned() &&
                           total != json.end() && total->is_number_unsigned();
  if (is_progress && listener.progress)
    listener.progress(done->get<uint64_t>(), total->get<uint64_t>());
}

}  // namespace

void run_file_work(const std::string& program, const FileWork& work,
                   const std::function<void(std::span<const std::byte> bytes)>& sink) {
  Report report;
  std::vector<std::string> command = {program, work.command, "--progress-json"};
  command.insert(command.end(), work.arguments.begin(), work.arguments.end());
  const int status = process::run_program(
      {.command = std::move(command),
       .on_output = sink,
       .on_line = [&](std::string_view line) { take_line(line, work.listener, report); },
       .time = std::nullopt,
       .stop = work.stop});
  if (status == 0) return;
  const std::string what = report.error.empty() ? "billow " + work.command + " ended with status " +
                                                      std::to_string(status)
                                                : report.error;
  throw Error(code_of(report.code), what);
}

}  // namespace billow::api
