#include "prompt/go_template.h"

#include <utility>

#include "base/error.h"
#include "prompt/go/evaluator.h"
#include "prompt/go/syntax.h"

namespace billow::prompt {
namespace {

using go::Node;
using go::Nodes;

void collect(const Nodes& nodes, GoTemplate::Names& names) {
  for (const Node& node : nodes) {
    if (node.pipeline) {
      go::for_each_field(*node.pipeline, [&](std::string_view field) { names.emplace(field); });
    }
    collect(node.body, names);
    collect(node.other, names);
  }
}

GoTemplate::Names names_of(const go::Program& program) {
  GoTemplate::Names names;
  collect(program.root, names);
  for (const auto& [name, nodes] : program.defined) collect(nodes, names);
  return names;
}

// Returns the order of the first action that prints .Response, or an order that no node has.
size_t find_response(const Nodes& nodes) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::kAction && go::mentions(node.pipeline.get(), "Response")) {
      return node.order;
    }
    for (const Nodes* inner : {&node.body, &node.other}) {
      if (const size_t order = find_response(*inner); order != ~size_t{0}) return order;
    }
  }
  return ~size_t{0};
}

std::unique_ptr<const go::Program> parse(std::string source) {
  if (source.size() > kMaxGoTemplateBytes) {
    throw Error(ErrorCode::kTooLarge, "template: " + std::to_string(source.size()) +
                                          " bytes, more than " +
                                          std::to_string(kMaxGoTemplateBytes));
  }
  auto program = go::parse(std::move(source));
  const GoTemplate::Names names = names_of(*program);
  if (!names.contains("Messages") && !names.contains("Response")) {
    go::append_action(*program, "Response");
  }
  return program;
}

}  // namespace

GoTemplate::GoTemplate(std::string source, const GoLimits& limits)
    : program_(parse(std::move(source))),
      limits_(limits),
      variables_(names_of(*program_)),
      response_order_(find_response(program_->root)) {}

const std::string& GoTemplate::source() const { return program_->source; }

std::string GoTemplate::render(const go::Value& data, GoPart part, std::time_t now) const {
  go::Budget budget(limits_.n_steps, limits_.n_bytes);
  const size_t last = part == GoPart::kAll ? ~size_t{0} : response_order_;
  return go::evaluate(*program_, data, {budget, now == -1 ? std::time(nullptr) : now, last});
}

}  // namespace billow::prompt
