#include "image/picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "image/codec.h"
#include "image/exif.h"

namespace billow::image {
namespace {

struct Codec {
  std::string_view name;
  Header (*header)(std::string_view bytes, const Work& work);
  Decoded (*decode)(std::string_view bytes, const Work& work);
};

// In the order of Format.
constexpr std::array<Codec, 5> kCodecs{{
    {"PNG", png_header, decode_png},
    {"JPEG", jpeg_header, decode_jpeg},
    {"WebP", webp_header, decode_webp},
    {"GIF", gif_header, decode_gif},
    {"BMP", bmp_header, decode_bmp},
}};

const Codec& codec_of(Format format) { return kCodecs[static_cast<size_t>(format)]; }

Format checked_format(std::string_view bytes, const Limits& limits) {
  if (bytes.empty()) throw Error(ErrorCode::kInvalidInput, "the picture is empty");
  if (bytes.size() > limits.max_bytes) {
    throw Error(ErrorCode::kTooLarge, "the picture has " + format_byte_size(bytes.size()) +
                                          ", more than " + format_byte_size(limits.max_bytes));
  }
  const std::optional<Format> format = find_format(bytes);
  if (!format) {
    throw Error(ErrorCode::kUnsupported,
                "the picture format is unknown; use PNG, JPEG, WebP, GIF or BMP");
  }
  return *format;
}

}  // namespace

std::string_view format_name(Format format) noexcept {
  return kCodecs[static_cast<size_t>(format)].name;
}

std::optional<Format> find_format(std::string_view bytes) noexcept {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return Format::kPng;
  if (bytes.starts_with("\xff\xd8\xff")) return Format::kJpeg;
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP")
    return Format::kWebp;
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return Format::kGif;
  if (bytes.starts_with("BM")) return Format::kBmp;
  return std::nullopt;
}

void Work::check_size(uint64_t width, uint64_t height) const {
  if (width == 0 || height == 0) fail("it has no pixels");
  // The product cannot overflow, because both factors are below 2^32.
  if (width * height <= limits_.max_pixels) return;
  throw Error(ErrorCode::kTooLarge, "the " + std::string(format_name(format_)) + " picture has " +
                                        std::to_string(width) + " x " + std::to_string(height) +
                                        " pixels, more than " + std::to_string(limits_.max_pixels) +
                                        ": reduce its size");
}

void Work::check_time() const {
  if (is_late()) fail_late();
}

void Work::fail_late() const {
  throw Error(ErrorCode::kTooLarge, "the " + std::string(format_name(format_)) +
                                        " picture takes longer to read than " +
                                        std::to_string(limits_.max_time.count()) + " ms");
}

void Work::fail(std::string_view why) const {
  throw Error(ErrorCode::kInvalidInput, "the " + std::string(format_name(format_)) +
                                            " picture cannot be read: " + std::string(why));
}

void Work::refuse(std::string_view what) const {
  throw Error(ErrorCode::kUnsupported, "the " + std::string(format_name(format_)) + " picture " +
                                           std::string(what) + ", which is not supported");
}

Picture white(Size size) {
  Picture picture{.size = size, .rgb = {}};
  picture.rgb.assign(size_t{size.width} * size.height * 3, 255);
  return picture;
}

void put_on_white(const uint8_t* rgba, size_t n_pixels, uint8_t* rgb) noexcept {
  for (size_t i = 0; i < n_pixels; ++i, rgba += 4, rgb += 3) {
    const unsigned alpha = rgba[3];
    for (size_t c = 0; c < 3; ++c)
      rgb[c] = static_cast<uint8_t>((rgba[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
}

Size size_of(std::string_view bytes, const Limits& limits) {
  const Format format = checked_format(bytes, limits);
  const Work work(format, limits);
  const Header header = codec_of(format).header(bytes, work);
  work.check_size(header.size.width, header.size.height);
  return is_on_its_side(header.orientation) ? Size{header.size.height, header.size.width}
                                            : header.size;
}

Picture decode(std::string_view bytes, const Limits& limits) {
  const Format format = checked_format(bytes, limits);
  const Work work(format, limits);
  Decoded decoded = codec_of(format).decode(bytes, work);
  return turned(std::move(decoded.picture), decoded.orientation);
}

std::string encode_png(const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.size.width;
  image.height = picture.size.height;
  image.format = PNG_FORMAT_RGB;
  image.flags = PNG_IMAGE_FLAG_FAST;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t n_bytes = out.size();
  if (png_image_write_to_memory(&image, out.data(), &n_bytes, 0, picture.rgb.data(), 0, nullptr) ==
      0)
    throw Error(ErrorCode::kOutOfMemory, std::string("cannot encode a picture: ") + image.message);
  out.resize(n_bytes);
  return out;
}

}  // namespace billow::image
