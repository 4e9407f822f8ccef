// gpuplan mcp: the Model Context Protocol on standard input and output, one JSON-RPC message a line
// (modelcontextprotocol.io, revision 2025-06-18). Each tool is a command of this program, whose flags are its
// arguments; a call starts the program anew, so that nothing that one answer leaves can reach the next.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "tools/commands/commands.h"
#include "tools/subprocess/child.h"

namespace gpuplan {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNewestProtocol = "2025-06-18";
constexpr std::array<std::string_view, 3> kProtocols = {kNewestProtocol, "2025-03-26", "2024-11-05"};
// JSON-RPC's own (jsonrpc.org/specification, section 5.1).
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601, kInvalidParams = -32602;

struct McpTool {
  std::string name, description;
  bool json = true;  // --format json is a flag of it
};
const std::array<McpTool, 5> kTools = {{
    {"plan",
     "Predicts the GPU memory (parameters, activations, gradients, optimizer state, peak), FLOPs and time of a "
     "training or inference step of a PyTorch model, and whether it fits a GPU. No GPU is needed."},
    {"fit", "Finds the largest batch of a model that fits each GPU, what renting it costs, and the best choice."},
    {"explain", "Explains a layer, a loss, a flag of a plan or a term of its report; without a topic it lists all.",
     false},
    {"diff", "Shows what a change to a model costs: two model files, zoo models or commits."},
    {"check", "Checks the memory budgets of a gpuplan.yaml."},
}};

// What a call decides itself, and what only a terminal wants.
constexpr std::array<std::string_view, 10> kNotAsked = {"help",  "format", "output", "force",  "color",
                                                        "width", "ascii",  "quiet",  "update", "github"};

std::string long_name(const CLI::Option& option) {
  return option.get_positional()       ? option.get_name(true)
         : option.get_lnames().empty() ? ""
                                       : option.get_lnames().front();
}

bool is_asked(const CLI::Option& option) {
  const std::string name = long_name(option);
  return !name.empty() && std::ranges::find(kNotAsked, name) == kNotAsked.end();
}

std::vector<std::string> asked_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    if (is_asked(*option)) names.push_back(long_name(*option));
  return names;
}

Json property_of(const CLI::Option& option) {
  Json property;
  const bool flag = option.get_items_expected_max() == 0;
  const bool many = option.get_items_expected_max() > 1;
  if (flag)
    property["type"] = "boolean";
  else if (many)
    property = {{"type", "array"}, {"items", {{"type", Json::array({"string", "number"})}}}};
  else
    property["type"] = Json::array({"string", "number"});
  const std::string values = flag ? "" : " (" + option.get_type_name() + ")";
  property["description"] = option.get_description() + values;
  return property;
}

Json schema_of(const CLI::App& command) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const CLI::Option* const option : command.get_options()) {
    if (!is_asked(*option)) continue;
    const std::string name = long_name(*option);
    properties[name] = property_of(*option);
    if (option->get_required()) required.push_back(name);
  }
  Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json list_tools(const CLI::App& app) {
  Json tools = Json::array();
  for (const McpTool& tool : kTools) {
    const CLI::App* const command = app.get_subcommand(tool.name);
    tools.push_back({{"name", tool.name},
                     {"description", tool.description},
                     {"inputSchema", schema_of(*command)},
                     {"annotations", {{"readOnlyHint", true}}}});
  }
  return {{"tools", tools}};
}

std::string word_of(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) throw Error(name + ": expected a string or a number, not " + value.dump());
  return value.dump();
}

// The arguments as the command line has them: flags first, what stands by itself behind them. Nothing that an assistant
// writes becomes a flag of its own, such as one that writes a file, and the child does not read our standard input.
std::vector<std::string> words_of(const CLI::App& command, const Json& arguments) {
  if (!arguments.is_object()) throw Error("arguments: expected an object");
  std::vector<std::string> flags, positional;
  for (const auto& [name, value] : arguments.items()) {
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr) option = command.get_option_no_throw(name);
    if (option == nullptr || !is_asked(*option))
      throw Error("no argument \"" + name + "\"" + did_you_mean(name, asked_names(command)));
    for (const Json& one : value.is_array() ? value : Json::array({value})) {
      if (one.is_boolean()) {
        if (one.get<bool>()) flags.push_back("--" + name);
      } else if (option->get_positional()) {
        positional.push_back(word_of(name, one));
        if (positional.back().starts_with('-'))
          throw Error(name + ": expected no flag, not \"" + positional.back() + '"');
      } else if (!one.is_null()) {
        flags.push_back("--" + name + "=" + word_of(name, one));
      }
    }
  }
  flags.insert(flags.end(), positional.begin(), positional.end());
  return flags;
}

Json call_tool(const CLI::App& app, const McpTool& tool, const Json& arguments) {
  std::vector<std::string> command = {"/proc/self/exe", tool.name};
  const std::vector<std::string> words = words_of(*app.get_subcommand(tool.name), arguments);
  command.insert(command.end(), words.begin(), words.end());
  if (tool.json) command.insert(command.end(), {"--format", "json"});
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  Child child(command, environment);
  const Child::Rest said = child.read_all();
  const int status = child.wait();
  const bool failed = status > 1;  // 1: the answer is no
  Json result = {{"content", Json::array({{{"type", "text"}, {"text", failed ? said.errors : said.output}}})},
                 {"isError", failed}};
  if (tool.json && !failed) result["structuredContent"] = Json::parse(said.output);
  return result;
}

Json error(int code, const std::string& message) { return {{"error", {{"code", code}, {"message", message}}}}; }

Json answer(const CLI::App& app, const std::string& method, const Json& parameters) {
  if (method == "initialize") {
    const std::string asked = parameters.value("protocolVersion", std::string(kNewestProtocol));
    const bool known = std::ranges::find(kProtocols, asked) != kProtocols.end();
    return {{"result",
             {{"protocolVersion", known ? asked : std::string(kNewestProtocol)},
              {"capabilities", {{"tools", Json::object()}}},
              {"serverInfo", {{"name", "gpuplan"}, {"version", GPUPLAN_VERSION}}}}}};
  }
  if (method == "ping") return {{"result", Json::object()}};
  if (method == "tools/list") return {{"result", list_tools(app)}};
  if (method != "tools/call") return error(kMethodNotFound, "no method \"" + method + "\"");
  const std::string name = parameters.value("name", "");
  for (const McpTool& tool : kTools)
    if (tool.name == name) return {{"result", call_tool(app, tool, parameters.value("arguments", Json::object()))}};
  return error(kInvalidParams, "no tool \"" + name + "\"");
}

// A message's answer; null for a notification, which has none.
Json reply(const CLI::App& app, const std::string& line) {
  const Json message = Json::parse(line, nullptr, false);
  Json out = {{"jsonrpc", "2.0"}, {"id", nullptr}};
  if (message.is_discarded()) {
    out.update(error(kParseError, "this is not JSON"));
    return out;
  }
  if (!message.is_object() || !message.contains("method") || !message["method"].is_string()) {
    out.update(error(kInvalidRequest, "expected a JSON-RPC request: an object with a method"));
    return out;
  }
  if (!message.contains("id")) return nullptr;
  out["id"] = message["id"];
  const Json parameters = message.value("params", Json::object());
  try {
    if (!parameters.is_object()) throw Error("params: expected an object");
    out.update(answer(app, message["method"], parameters));
  } catch (const Error& wrong) {
    out.update(error(kInvalidParams, wrong.message()));
  } catch (const Json::exception& wrong) {  // a member of another type
    out.update(error(kInvalidParams, wrong.what()));
  }
  return out;
}

}  // namespace

void add_mcp_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("mcp", "Serves assistants: the Model Context Protocol on standard input and output");
  command->callback([&exit_code] {
    CLI::App tools;  // their flags; a call is another process's
    int unused = 0;
    add_plan_command(tools, unused);
    add_fit_command(tools, unused);
    add_explain_command(tools, unused);
    add_diff_command(tools, unused, std::nullopt);
    add_check_command(tools, unused);
    for (std::string line; std::getline(std::cin, line);) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (const Json out = reply(tools, line); !out.is_null())
        std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    }
    exit_code = 0;
  });
}

}  // namespace gpuplan
