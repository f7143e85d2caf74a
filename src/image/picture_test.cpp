#include "image/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/test_source_dir.h"
#include "image/exif.h"

namespace billow::image {
namespace {

using std::filesystem::directory_iterator;
using std::filesystem::path;

const path kFixtures = path(source_dir()) / "tests/image/fixtures";

std::string bytes_of(const path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Reads a PPM file that Pillow wrote.
Picture expected_of(const path& file) {
  std::istringstream in(bytes_of(file.string() + ".ppm"));
  std::string magic;
  uint32_t max = 0;
  Picture picture;
  in >> magic >> picture.size.width >> picture.size.height >> max;
  in.get();
  picture.rgb.resize(size_t{picture.size.width} * picture.size.height * 3);
  in.read(reinterpret_cast<char*>(picture.rgb.data()),
          static_cast<std::streamsize>(picture.rgb.size()));
  EXPECT_TRUE(in) << file;
  return picture;
}

std::vector<path> fixtures() {
  std::vector<path> files;
  for (const auto& entry : directory_iterator(kFixtures))
    if (entry.path().extension() != ".ppm") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

int largest_difference(const Picture& a, const Picture& b) {
  if (a.size != b.size || a.rgb.size() != b.rgb.size()) return 999;
  int max = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) max = std::max(max, std::abs(a.rgb[i] - b.rgb[i]));
  return max;
}

std::string why(std::string_view bytes, const Limits& limits = {}) {
  std::string sized = "none";
  try {
    size_of(bytes, limits);
  } catch (const Error& error) {
    sized = error.what();
  }
  try {
    decode(bytes, limits);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_TRUE(sized == "none" || sized == text) << sized << " / " << text;
    return text;
  }
  return "";
}

std::string big_endian(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

TEST(Picture, MatchesPillow) {
  const std::vector<path> files = fixtures();
  ASSERT_GT(files.size(), 30u);
  for (const path& file : files) {
    const std::string bytes = bytes_of(file);
    const Picture picture = decode(bytes);
    // For lossy formats, versions of one library differ slightly.
    EXPECT_LE(largest_difference(picture, expected_of(file)), 2) << file;
    EXPECT_EQ(size_of(bytes), picture.size) << file;
  }
}

// Prompts are laid out by the header, so a late chunk must not turn the picture.
TEST(Picture, SizeOfAPngIsThatOfItsHeader) {
  const std::string turned = bytes_of(kFixtures / "turned.png");
  const size_t exif = turned.find("eXIf") - 4;  // after the length of the chunk
  const auto byte = [&](size_t at) { return size_t{static_cast<unsigned char>(turned[at])}; };
  const size_t n = 12 + byte(exif + 2) * 256 + byte(exif + 3);
  std::string late = turned;
  late.erase(exif, n);
  late.insert(late.find("IEND") - 4, turned.substr(exif, n));
  EXPECT_EQ(size_of(late), decode(late).size);
  EXPECT_EQ(decode(late).size.width, decode(turned).size.height);
}

TEST(Picture, EncodedPngHasSamePixels) {
  for (const path& file : fixtures()) {
    const Picture picture = decode(bytes_of(file));
    const std::string png = encode_png(picture);
    EXPECT_EQ(find_format(png), Format::kPng);
    EXPECT_EQ(decode(png).rgb, picture.rgb) << file;
  }
}

TEST(Picture, RejectsTruncatedFiles) {
  for (const path& file : fixtures()) {
    const std::string bytes = bytes_of(file);
    // A longer part can be enough: only the pixels of the first frame are needed.
    for (const size_t n : {size_t{1}, size_t{9}, size_t{20}, bytes.size() / 3, bytes.size() / 2})
      EXPECT_NE(why(std::string_view(bytes).substr(0, n)), "") << file << " " << n;
  }
}

TEST(Picture, DamagedFileGivesPictureOrError) {
  std::mt19937 random(7);
  for (const path& file : fixtures()) {
    const std::string bytes = bytes_of(file);
    for (int round = 0; round < 100; ++round) {
      std::string broken = bytes;
      for (int i = 0; i < 1 + round % 4; ++i)
        broken[random() % broken.size()] = static_cast<char>(random());
      try {
        const Picture picture = decode(broken, {.max_pixels = 1'000'000});
        EXPECT_EQ(picture.rgb.size(), size_t{picture.size.width} * picture.size.height * 3);
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
  }
}

TEST(Picture, RejectsOtherFiles) {
  EXPECT_EQ(why(""), "the picture is empty");
  EXPECT_EQ(why("hello"), "the picture format is unknown; use PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(why(std::string(100, 'x'), {.max_bytes = 99}), "the picture has 100 B, more than 99 B");
  EXPECT_EQ(why("\x89PNG\r\n\x1a\n"), "the PNG picture cannot be read: its data ends too early");
  EXPECT_NE(why("\xff\xd8\xff\xd9"), "");
  EXPECT_NE(why("BMxxxx"), "");
}

TEST(Picture, RejectsHugeSizesWithoutAllocation) {
  std::string png = bytes_of(kFixtures / "rgb.png");
  // With a wrong checksum, libpng would reject the header before it checks the sizes.
  const std::string head =
      "IHDR" + big_endian(50'000) + big_endian(50'000) + std::string("\x08\x02\0\0\0", 5);
  uint32_t crc = 0xffffffff;
  for (const char c : head) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  png.replace(12, 21, head + big_endian(~crc));
  EXPECT_EQ(why(png),
            "the PNG picture has 50000 x 50000 pixels, more than 50000000: reduce its size");

  std::string gif = bytes_of(kFixtures / "plain.gif");
  gif.replace(6, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(why(gif),
            "the GIF picture has 65535 x 65535 pixels, more than 50000000: reduce its size");
  std::string bmp = bytes_of(kFixtures / "rgb.bmp");
  bmp.replace(18, 4, std::string("\x50\xc3\0\0", 4));
  bmp.replace(22, 4, std::string("\x50\xc3\0\0", 4));
  EXPECT_EQ(why(bmp),
            "the BMP picture has 50000 x 50000 pixels, more than 50000000: reduce its size");
  for (const char* file : {"plain.jpg", "progressive.jpg"}) {
    std::string jpeg = bytes_of(kFixtures / file);
    const size_t at = jpeg.find(std::string("\xff", 1) + (file[1] == 'l' ? "\xc0" : "\xc2"));
    ASSERT_NE(at, std::string::npos);
    jpeg.replace(at + 5, 4, "\xc3\x50\xc3\x50");
    EXPECT_EQ(why(jpeg),
              "the JPEG picture has 50000 x 50000 pixels, more than 50000000: reduce its size");
  }
  EXPECT_EQ(why(bytes_of(kFixtures / "lossy.webp"), {.max_pixels = 100}),
            "the WebP picture has 19 x 13 pixels, more than 100: reduce its size");
}

TEST(Picture, RejectsPicturesWithoutPixels) {
  std::string bmp = bytes_of(kFixtures / "rgb.bmp");
  bmp.replace(18, 4, std::string(4, '\0'));
  EXPECT_EQ(why(bmp), "the BMP picture cannot be read: it has no pixels");
  std::string gif = bytes_of(kFixtures / "plain.gif");
  const size_t frame = gif.find(std::string(",\0\0\0\0", 5));
  gif.replace(frame + 5, 4, std::string(4, '\0'));
  EXPECT_NE(why(gif), "");
}

TEST(Picture, LimitsDecodingTime) {
  for (const char* file :
       {"rgb.png", "interlaced.png", "progressive.jpg", "plain.gif", "rgb.bmp"}) {
    EXPECT_NE(
        why(bytes_of(kFixtures / file), {.max_time = std::chrono::milliseconds(-1)}).find("longer"),
        std::string::npos)
        << file;
  }
}

TEST(Picture, LimitsTheScansOfAJpeg) {
  std::string jpeg = bytes_of(kFixtures / "progressive.jpg");
  const size_t scan = jpeg.find("\xff\xda");
  ASSERT_NE(scan, std::string::npos);
  size_t end = scan + 2;  // the next marker: 0xFF before 0 is a byte of the scan
  while (jpeg[end] != '\xff' || jpeg[end + 1] == '\0') ++end;
  const std::string first = jpeg.substr(scan, end - scan);
  for (int i = 0; i < 250; ++i) jpeg.insert(scan, first);
  EXPECT_EQ(why(jpeg), "the JPEG picture cannot be read: it has more than 200 scans");
}

TEST(Picture, IgnoresInvalidExif) {
  using namespace std::literals;  // NOLINT(google-build-using-namespace)
  EXPECT_EQ(orientation_of(""), 1);
  EXPECT_EQ(orientation_of("II*\0\xff\xff\xff\xff"sv), 1);
  EXPECT_EQ(orientation_of("II*\0\x08\0\0\0\xff\xff"sv), 1);
  const auto tiff = [](char value, char type) {
    return "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0"s + type + "\0\0\0\x01\0"s + value + "\0\0"s;
  };
  EXPECT_EQ(orientation_of(tiff(6, 3)), 6);
  EXPECT_EQ(orientation_of(tiff(9, 3)), 1);
  EXPECT_EQ(orientation_of(tiff(0, 3)), 1);
  EXPECT_EQ(orientation_of(tiff(6, 4)), 1);
}

}  // namespace
}  // namespace billow::image
