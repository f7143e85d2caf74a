// Decodes PNG with libpng. libpng reports errors by longjmp, which runs no destructors. All objects
// with destructors are therefore in Reader, outside the functions that call libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>
#include <utility>

#include "image/codec.h"
#include "image/exif.h"

namespace billow::image {
namespace {

// Rejects files with incomplete chunks, because libpng allocates memory for some chunks before it
// reads them.
void check_chunks(std::string_view bytes, const Work& work) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length, type and checksum
  bytes.remove_prefix(kSignature);
  for (bool is_end = false; !is_end;) {
    if (bytes.size() < kAround) work.fail("its data ends too early");
    uint64_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(bytes[i]);
    if (length > bytes.size() - kAround) work.fail("its data ends too early");
    is_end = bytes.substr(4, 4) == "IEND";
    bytes.remove_prefix(kAround + static_cast<size_t>(length));
  }
}

class Reader {
 public:
  Reader(std::string_view bytes, const Work& work) : rest_(bytes), work_(work) {
    check_chunks(bytes, work);
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      work.fail("not enough memory");
    }
    png_set_read_fn(png_, this, read);
    constexpr png_uint_32 kMaxEdge = 0x7fffffff;  // Work limits the number of pixels
    constexpr png_alloc_size_t kMaxChunk = png_alloc_size_t{8} << 20;
    png_set_user_limits(png_, kMaxEdge, kMaxEdge);
    png_set_chunk_malloc_max(png_, kMaxChunk);
    png_set_chunk_cache_max(png_, 100);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Header header() {
    if (!read_info()) fail();
    return {.size = size(), .orientation = orientation()};
  }

  Decoded decode() {
    if (!read_info()) fail();
    work_.check_size(size().width, size().height);
    if (!choose_form()) fail();
    // As in header(), only an eXIf chunk before the pixels counts: prompts are laid out by the
    // header.
    Decoded out{.picture = white(size()), .orientation = orientation()};
    rgb_ = out.picture.rgb.data();
    // An interlaced picture has several passes, so that all rows must be in memory.
    rows_.resize(row_bytes_ * (n_passes_ > 1 ? size().height : 1));
    if (!read_rows()) fail();
    if (n_passes_ > 1)
      for (size_t y = 0; y < size().height; ++y) take_row(y, rows_.data() + y * row_bytes_);
    return out;
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    static_cast<Reader*>(png_get_error_ptr(png))->error_ = message;
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep to, size_t n_bytes) {
    auto& self = *static_cast<Reader*>(png_get_io_ptr(png));
    if (self.rest_.size() < n_bytes) png_error(png, "its data ends too early");
    std::memcpy(to, self.rest_.data(), n_bytes);
    self.rest_.remove_prefix(n_bytes);
  }

  Size size() const {
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }

  int orientation() {
    png_uint_32 n_bytes = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &n_bytes, &exif) == 0) return 1;
    return orientation_of({reinterpret_cast<const char*>(exif), n_bytes});
  }

  // The functions from here to read_rows() have no local objects with destructors. They return
  // false with the reason in error_.
  bool read_info() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_info(png_, info_);
    return true;
  }

  bool choose_form() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    n_passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
    n_channels_ = png_get_channels(png_, info_);
    if (n_channels_ != 3 && n_channels_ != 4) png_error(png_, "its pixel format is unknown");
    return true;
  }

  bool read_rows() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const size_t height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < n_passes_; ++pass) {
      for (size_t y = 0; y < height; ++y) {
        if (y % 64 == 0 && work_.is_late()) {
          is_late_ = true;
          return false;
        }
        uint8_t* row = rows_.data() + (n_passes_ > 1 ? y * row_bytes_ : 0);
        png_read_row(png_, row, nullptr);
        if (n_passes_ == 1) take_row(y, row);
      }
    }
    png_read_end(png_, info_);
    return true;
  }

  void take_row(size_t y, const uint8_t* row) {
    const size_t width = png_get_image_width(png_, info_);
    uint8_t* to = rgb_ + y * width * 3;
    if (n_channels_ == 3)
      std::memcpy(to, row, width * 3);
    else
      put_on_white(row, width, to);
  }

  [[noreturn]] void fail() const {
    if (is_late_) work_.fail_late();
    work_.fail(error_);
  }

  std::string_view rest_;
  const Work& work_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string error_;
  std::vector<uint8_t> rows_;
  uint8_t* rgb_ = nullptr;
  size_t row_bytes_ = 0;
  int n_passes_ = 1;
  int n_channels_ = 0;
  bool is_late_ = false;
};

}  // namespace

Header png_header(std::string_view bytes, const Work& work) { return Reader(bytes, work).header(); }

Decoded decode_png(std::string_view bytes, const Work& work) {
  return Reader(bytes, work).decode();
}

}  // namespace billow::image
