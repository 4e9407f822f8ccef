#include "tools/importers/onnx/stored_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string_view>

#include "onnx_schema/onnx.pb.h"

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kMaxFileName = 255;

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// external_data: location, and offset and length where they are not the whole file.
std::optional<StoredData> beside_the_model(const onnx::TensorProto& tensor, std::int64_t bytes) {
  StoredData data;
  data.bytes = bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") data.beside = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const std::optional<std::int64_t> value = number(entry.value());
    if (!value || (entry.key() == "length" && *value != bytes)) return std::nullopt;
    if (entry.key() == "offset") data.offset = *value;
  }
  return is_file_name(data.beside) ? std::optional(data) : std::nullopt;
}

// "OFFSET BYTES", see strip.h.
std::optional<StoredData> in_the_model(const std::string& text, std::int64_t bytes) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const std::optional<std::int64_t> offset = number(std::string_view(text).substr(0, space));
  const std::optional<std::int64_t> length = number(std::string_view(text).substr(space + 1));
  if (!offset || length != bytes) return std::nullopt;
  return StoredData{"", *offset, bytes};
}

int open_regular(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  struct stat status {};
  if (descriptor < 0 || (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

std::optional<StoredData> stored_data(const onnx::TensorProto& tensor, std::int64_t bytes) {
  if (bytes <= 0) return std::nullopt;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return beside_the_model(tensor, bytes);
  return in_the_model(tensor.doc_string(), bytes);
}

StoredFile::StoredFile(const StoredData& data, const std::string& model) : offset_(data.offset), bytes_(data.bytes) {
  if (data.beside.empty()) {
    descriptor_ = open_regular(model, 0);
    return;
  }
  const std::size_t slash = model.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
  descriptor_ = open_regular(folder + data.beside, O_NOFOLLOW);
}

StoredFile::~StoredFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool StoredFile::read(std::int64_t at, std::int64_t bytes, std::string& out) const {
  if (descriptor_ < 0 || at < 0 || bytes < 0 || bytes > bytes_ || at > bytes_ - bytes) return false;
  if (offset_ > std::numeric_limits<std::int64_t>::max() - bytes_) return false;
  std::array<char, 4096> part{};
  for (std::int64_t done = 0; done < bytes;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(bytes - done, part.size()));
    const ::ssize_t got = ::pread(descriptor_, part.data(), wanted, offset_ + at + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out.append(part.data(), static_cast<std::size_t>(got));
    done += got;
  }
  return true;
}

}  // namespace gpuplan::onnx_import
