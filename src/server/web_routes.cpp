#include "server/web_routes.h"

#include <string>

#include "http/message.h"
#include "web/page.h"

namespace billow::server {

std::vector<api::Route> web_routes() {
  using api::Call;
  const auto file = [](std::string folder) {
    return [folder = std::move(folder)](Call& call) {
      const http::Request& request = call.request();
      const auto name = request.parameters.find("file");
      const std::string wanted = name == request.parameters.end() ? "" : folder + name->second;
      call.respond(web::answer(web::embedded_assets(), wanted, request));
    };
  };
  const auto add_slash = [](Call& call) { call.respond(web::redirect("ui/", true)); };
  const std::vector<http::Method> reading{http::Method::kGet, http::Method::kHead};
  return {
      {.methods = reading, .pattern = "/ui", .handler = add_slash, .is_watched = true},
      {.methods = reading, .pattern = "/ui/", .handler = file(""), .is_watched = true},
      {.methods = reading, .pattern = "/ui/:file", .handler = file(""), .is_watched = true},
      {.methods = reading,
       .pattern = "/ui/assets/:file",
       .handler = file("assets/"),
       .is_watched = true},
  };
}

}  // namespace billow::server
