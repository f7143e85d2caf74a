// Decodes JPEG with libjpeg-turbo. The library reports errors by longjmp, which runs no
// destructors. All objects with destructors are therefore in Reader, outside the functions that
// call the library.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jerror.h>
#include <jpeglib.h>

#include <string>
#include <utility>

#include "image/codec.h"
#include "image/exif.h"

namespace billow::image {
namespace {

// A file with too many scans takes minutes to decode. Encoders write about ten.
constexpr int kMaxScans = 200;

class Reader {
 public:
  Reader(std::string_view bytes, const Work& work) : bytes_(bytes), work_(work) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    progress_.progress_monitor = on_progress;
    jpeg_.client_data = this;
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Header header() {
    if (!read_header()) fail();
    return {.size = {jpeg_.image_width, jpeg_.image_height}, .orientation = orientation()};
  }

  Decoded decode() {
    const Header head = header();
    work_.check_size(head.size.width, head.size.height);
    if (!start()) fail();
    if (jpeg_.output_width != head.size.width || jpeg_.output_height != head.size.height)
      work_.fail("its size changes during decoding");
    Decoded out{.picture = white(head.size), .orientation = head.orientation};
    if (is_cmyk()) row_.resize(size_t{head.size.width} * 4);
    if (!read_rows(out.picture.rgb.data())) fail();
    return out;
  }

 private:
  static Reader& self_of(j_common_ptr jpeg) { return *static_cast<Reader*>(jpeg->client_data); }
  static void on_error(j_common_ptr jpeg) {
    Reader& self = self_of(jpeg);
    jpeg->err->format_message(jpeg, self.message_);
    std::longjmp(self.jump_, 1);
  }
  // Most warnings are harmless. These three mean missing pixels.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    const int code = jpeg->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_NOT_SEQUENTIAL)
      on_error(jpeg);
  }
  static void on_progress(j_common_ptr jpeg) {
    Reader& self = self_of(jpeg);
    const int n_scans = reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number;
    self.has_many_scans_ = n_scans > kMaxScans;
    self.is_late_ = self.work_.is_late();
    if (!self.has_many_scans_ && !self.is_late_) return;
    std::longjmp(self.jump_, 1);
  }

  bool is_cmyk() const { return jpeg_.out_color_space == JCS_CMYK; }

  int orientation() const {
    for (jpeg_saved_marker_ptr marker = jpeg_.marker_list; marker != nullptr;
         marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (marker->marker == JPEG_APP0 + 1 && data.starts_with("Exif")) return orientation_of(data);
    }
    return 1;
  }

  // The functions from here to read_rows() have no local objects with destructors. They return
  // false with the reason in message_.
  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    constexpr unsigned kMaxMarker = 0xffff;
    jpeg_save_markers(&jpeg_, JPEG_APP0 + 1, kMaxMarker);
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  bool start() {
    if (setjmp(jump_) != 0) return false;
    jpeg_.progress = &progress_;
    const bool has_black = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    jpeg_.out_color_space = has_black ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    return true;
  }

  bool read_rows(uint8_t* rgb) {
    if (setjmp(jump_) != 0) return false;
    const size_t row_bytes = size_t{jpeg_.output_width} * 3;
    while (jpeg_.output_scanline < jpeg_.output_height) {
      uint8_t* to = rgb + jpeg_.output_scanline * row_bytes;
      JSAMPROW row = is_cmyk() ? row_.data() : to;
      if (jpeg_read_scanlines(&jpeg_, &row, 1) != 1) ERREXIT(&jpeg_, JERR_INPUT_EMPTY);
      if (is_cmyk()) take_cmyk(row_.data(), jpeg_.output_width, to);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  // Adobe's files store the remaining light; other files store the ink.
  void take_cmyk(const uint8_t* cmyk, size_t n_pixels, uint8_t* rgb) const {
    const uint8_t flip = jpeg_.saw_Adobe_marker ? 0 : 255;
    for (size_t i = 0; i < n_pixels; ++i, cmyk += 4, rgb += 3) {
      const unsigned light = cmyk[3] ^ flip;
      for (size_t c = 0; c < 3; ++c)
        rgb[c] = static_cast<uint8_t>(((cmyk[c] ^ flip) * light + 127) / 255);
    }
  }

  [[noreturn]] void fail() const {
    if (has_many_scans_) work_.fail("it has more than " + std::to_string(kMaxScans) + " scans");
    if (is_late_) work_.fail_late();
    work_.fail(message_);
  }

  std::string_view bytes_;
  const Work& work_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  std::vector<uint8_t> row_;
  bool has_many_scans_ = false;
  bool is_late_ = false;
};

}  // namespace

Header jpeg_header(std::string_view bytes, const Work& work) {
  return Reader(bytes, work).header();
}

Decoded decode_jpeg(std::string_view bytes, const Work& work) {
  return Reader(bytes, work).decode();
}

}  // namespace billow::image
