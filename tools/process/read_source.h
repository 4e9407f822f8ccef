// Text files, standard input and embedded data as Sources that errors can point into.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/spec/model.h"
#include "tools/files/read_input.h"

namespace gpuplan {

constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;
constexpr SizeLimit kSourceLimit{kMaxSourceBytes, "the limit for a model or GPU file"};
/// Of prices: SkyPilot's of AWS, a line a zone, has more than 10 MiB.
constexpr SizeLimit kCatalogLimit{std::size_t{64} << 20, "the limit for a catalog: keep only the rows of one region"};
/// Of what gpuplan shadow --learn writes.
constexpr SizeLimit kTraceLimit{std::size_t{256} << 20, "the limit for a model or trace"};

/// The text of a file, a pipe or standard input ("-", then called "<stdin>"). Throws Error: it is missing, a directory,
/// not readable, larger than `most`, or a pipe that sends nothing.
std::shared_ptr<const Source> read_file_source(const std::string& name, SizeLimit most = kSourceLimit);

/// What the command line names, for those who look at its kind first: a pipe can be read once only, and was.
struct NamedFile {
  std::string name;
  std::shared_ptr<const Source> piped;
};
/// Throws Error, of a pipe.
NamedFile open_input(const std::string& name);
/// As many bytes as tell a recording from a model: the schema is the first key of a saved plan.
constexpr std::size_t kStartBytes = 4096;
/// The first kStartBytes of it; none of what is no file. Throws Error.
std::string start_of(const NamedFile& input);
/// All of it. Throws Error.
std::shared_ptr<const Source> text_of(const NamedFile& input, SizeLimit most = kSourceLimit);

/// "zoo:NAME", an embedded model. Throws Error with the nearest name.
std::shared_ptr<const Source> read_zoo_source(std::string_view name);
std::vector<std::string> zoo_names();
/// The spec of a model as named on the command line: a file, whose kind is recognised, "-" for standard input, or
/// "zoo:NAME". `set`: what --set says; the values that an import takes its sizes from are taken out. Throws Error.
std::shared_ptr<const Source> open_model(const std::string& model, std::vector<Variable>& set);
/// What `extends: NAME` in the source `relative_to` means: a file beside it, or in the zoo a model of the zoo.
std::shared_ptr<const Source> open_extended(std::string_view name, std::string_view relative_to);
/// "NAME=VALUE", as --set takes it. Throws Error.
Variable read_variable(const std::string& text);
/// True for a file, a pipe or anything else that can be opened for reading under that name; directories too.
bool exists(const std::string& path);

}  // namespace gpuplan
