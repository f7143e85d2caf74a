#include "registry/curl_api.h"

#include <dlfcn.h>

#include <array>
#include <string>

#include "base/error.h"

namespace billow::registry {
namespace {

// Debian's other build of the library has the same functions.
constexpr std::array kNames{"libcurl.so.4", "libcurl-gnutls.so.4"};

void* load() {
  std::string why;
  for (const char* name : kNames) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = ::dlerror();
  }
  throw Error(ErrorCode::kUnsupported,
              "registries need the library libcurl: install it (" + why + ")");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const address = ::dlsym(library, name);
  if (address == nullptr)
    throw Error(ErrorCode::kUnsupported,
                std::string("registries need libcurl 7.68 or newer: this one has no ") + name);
  function = reinterpret_cast<Function>(address);
}

CurlApi made_api() {
  void* const library = load();
  CurlApi api{};
  find(library, "curl_global_init", api.global_init);
  find(library, "curl_easy_init", api.easy_init);
  find(library, "curl_easy_cleanup", api.easy_cleanup);
  find(library, "curl_easy_setopt", api.easy_setopt);
  find(library, "curl_easy_strerror", api.easy_strerror);
  find(library, "curl_slist_append", api.slist_append);
  find(library, "curl_slist_free_all", api.slist_free_all);
  find(library, "curl_multi_init", api.multi_init);
  find(library, "curl_multi_cleanup", api.multi_cleanup);
  find(library, "curl_multi_add_handle", api.multi_add_handle);
  find(library, "curl_multi_remove_handle", api.multi_remove_handle);
  find(library, "curl_multi_perform", api.multi_perform);
  find(library, "curl_multi_poll", api.multi_poll);
  find(library, "curl_multi_wakeup", api.multi_wakeup);
  find(library, "curl_multi_info_read", api.multi_info_read);
  find(library, "curl_url", api.url);
  find(library, "curl_url_cleanup", api.url_cleanup);
  find(library, "curl_url_set", api.url_set);
  find(library, "curl_url_get", api.url_get);
  find(library, "curl_free", api.free);
  if (const CURLcode code = api.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
    throw Error(ErrorCode::kIo, std::string("cannot start libcurl: ") + api.easy_strerror(code));
  return api;
}

}  // namespace

const CurlApi& curl() {
  static const CurlApi api = made_api();
  return api;
}

}  // namespace billow::registry
