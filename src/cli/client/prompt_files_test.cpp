#include "cli/client/prompt_files.h"

#include <gtest/gtest.h>

#include <climits>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

std::string paths(std::string_view text) {
  std::string all;
  for (const NamedFile& file : files_named_in(text)) all += "<" + file.path + ">";
  return all;
}

TEST(FilesNamedIn, FindsPathsOfPicturesAndAudio) {
  EXPECT_EQ(paths("what is in /tmp/a.png?"), "</tmp/a.png>");
  EXPECT_EQ(paths("./a.JPG and ../b.jpeg, C:\\c.webp"), "<./a.JPG><../b.jpeg><C:\\c.webp>");
  EXPECT_EQ(paths("/a\\ b\\(1\\).png"), "</a b(1).png>");
  EXPECT_EQ(paths("'/a b.png' \"/c d.wav\""), "</a b.png></c d.wav>");
  EXPECT_EQ(paths("/a.jpg,/b.jpg"), "</a.jpg></b.jpg>");
}

TEST(FilesNamedIn, IgnoresOtherWords) {
  for (const char* text : {"", "a.png", "images/a.png", "/tmp/a.txt", "/tmp/a.pngx", "and/or",
                           "/a /b", "it's /a", "http://x.org/a.gif", "'/a b.png"}) {
    EXPECT_EQ(paths(text), "") << text;
  }
}

TEST(FilesNamedIn, NoPathIsLongerThanTheSystemAllows) {
  const std::string longest = "/" + std::string(PATH_MAX - 6, 'a') + ".png";
  EXPECT_EQ(paths(longest), "<" + longest + ">");
  EXPECT_EQ(paths("/" + longest), "");
  EXPECT_EQ(paths("/" + std::string(100000, 'a') + ".png /b.png"), "</b.png>");
  std::string pasted;
  for (int i = 0; i < 50000; ++i) pasted += "(/";
  EXPECT_EQ(paths(pasted + " /b.png"), "</b.png>");
}

class TakeFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }
  TestFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(TakeFiles, ReadsFilesAndRemovesTheirPaths) {
  const std::string png = "\x89PNG\r\n\x1a\n data";
  const std::string wav = std::string("RIFF\0\0\0\0WAVE", 12);
  const std::string picture = write("a.png", png);
  const std::string sound = write("b.wav", wav);
  const PromptFiles taken = take_files("compare " + picture + " '" + sound + "'");
  EXPECT_EQ(taken.text, "compare");
  EXPECT_EQ(taken.contents, (std::vector<std::string>{base64(png), base64(wav)}));
  EXPECT_EQ(taken.notes, "Added image '" + picture + "'\nAdded audio '" + sound + "'\n");
}

TEST_F(TakeFiles, KeepsPathsOfMissingFiles) {
  const PromptFiles taken = take_files(" see /nothing/here.png ");
  EXPECT_EQ(taken.text, " see /nothing/here.png ");
  EXPECT_TRUE(taken.contents.empty());
}

TEST_F(TakeFiles, RejectsFilesOfOtherFormats) {
  EXPECT_THROW(take_files(write("a.png", "hello")), Error);
  EXPECT_THROW(take_files(write("b.wav", "RIFF")), Error);
}

}  // namespace
}  // namespace billow::cli
