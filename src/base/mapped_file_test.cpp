#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow {
namespace {

ErrorCode code_of(const std::string& path) {
  try {
    MappedFile file(path);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << path << " was mapped";
  return ErrorCode::kIo;
}

TEST(MappedFile, MapsBytesAndSurvivesMoves) {
  const TestFolder folder;
  const std::string path = folder.file("mapped_file");
  std::ofstream(path) << "billow";
  MappedFile first(path);
  MappedFile second(std::move(first));
  ASSERT_EQ(second.bytes().size(), 6u);
  EXPECT_EQ(static_cast<char>(second.bytes()[0]), 'b');
}

TEST(MappedFile, ReleasedPagesKeepTheirContent) {
  const TestFolder folder;
  const std::string path = folder.file("released");
  std::ofstream(path) << std::string(100000, 'x') << "end";
  const MappedFile file(path);
  const std::string other(100, 'y');
  file.release(file.bytes());
  file.release(file.bytes().subspan(5000, 20000));
  file.release(std::as_bytes(std::span(other)));  // not in this file: no effect
  EXPECT_EQ(other, std::string(100, 'y'));
  EXPECT_EQ(static_cast<char>(file.bytes()[50000]), 'x');
  EXPECT_EQ(static_cast<char>(file.bytes()[100000]), 'e');
}

TEST(MappedFile, RejectsInvalidPaths) {
  const TestFolder folder;
  EXPECT_EQ(code_of(folder.file("not there")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(folder.path()), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kInvalidInput);
  const std::string empty = folder.file("empty");
  std::ofstream(empty).flush();
  EXPECT_EQ(code_of(empty), ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace billow
