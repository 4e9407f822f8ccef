#include "tools/importers/onnx/strip.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include "estimator/base/error.h"

namespace gpuplan::onnx_import {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr int kMaxMessageDepth = 32;  // graphs within attributes within nodes within graphs, ...

enum class Message : std::uint8_t {
  none,
  model,
  graph,
  node,
  attribute,
  tensor,
  function,
  value_info,
  known_value,
  note
};

struct Field {
  std::uint32_t number;
  Message inner = Message::none;  // none: a number or a text
};

// The fields that are kept, of each message (onnx.proto). Of a tensor's data, what is not too long.
constexpr std::array<Field, 8> kModel = {{{1}, {2}, {3}, {4}, {5}, {7, Message::graph}, {8}, {25, Message::function}}};
constexpr std::array<Field, 7> kGraph = {{{1, Message::node},
                                          {2},
                                          {5, Message::tensor},
                                          {11, Message::value_info},
                                          {12, Message::value_info},
                                          {13, Message::known_value},
                                          {15}}};
constexpr std::array<Field, 7> kNode = {{{1}, {2}, {3}, {4}, {5, Message::attribute}, {7}, {9, Message::note}}};
constexpr std::array<Field, 13> kAttribute = {{{1},
                                               {2},
                                               {3},
                                               {4},
                                               {5, Message::tensor},
                                               {6, Message::graph},
                                               {7},
                                               {8},
                                               {9},
                                               {10, Message::tensor},
                                               {11, Message::graph},
                                               {20},
                                               {21}}};
constexpr std::array<Field, 12> kTensor = {{{1}, {2}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {13}, {14}}};
constexpr std::uint32_t kTensorRaw = 9;
constexpr std::uint32_t kTensorDocumentation = 12;
constexpr std::array<Field, 7> kFunction = {{{1}, {4}, {5}, {7, Message::node}, {9}, {10}, {11, Message::attribute}}};
constexpr std::uint32_t kFunctionNode = 7;
constexpr std::uint32_t kFunctionDefault = 11;
constexpr std::uint32_t kNodeOperator = 4;
constexpr std::uint32_t kNodeAttribute = 5;
constexpr std::array<Field, 2> kValueInfo = {{{1}, {2}}};
constexpr std::array<Field, 2> kKnownValue = {{{1}, {4, Message::note}}};  // a ValueInfoProto whose notes alone count
constexpr std::array<Field, 2> kNote = {{{1}, {2}}};
constexpr std::uint32_t kNodeDocumentation = 6;
constexpr std::uint32_t kValueDocumentation = 3;

const Field* find(Message message, std::uint32_t number) {
  const auto in = [&](const auto& fields) -> const Field* {
    for (const Field& f : fields)
      if (f.number == number) return &f;
    return nullptr;
  };
  switch (message) {
    case Message::model: return in(kModel);
    case Message::graph: return in(kGraph);
    case Message::node: return in(kNode);
    case Message::attribute: return in(kAttribute);
    case Message::tensor: return in(kTensor);
    case Message::function: return in(kFunction);
    case Message::value_info: return in(kValueInfo);
    case Message::known_value: return in(kKnownValue);
    case Message::note: return in(kNote);
    case Message::none: break;
  }
  return nullptr;
}

// Fields 4 to 11 of a tensor but its name.
bool is_data(Message message, std::uint32_t number) {
  return message == Message::tensor && number >= 4 && number <= 11 && number != 8;
}

enum WireType : std::uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

class Stripper {
 public:
  Stripper(CodedInputStream& in, std::string name) : in_(in), name_(std::move(name)) {}

  std::string model() {
    std::string out;
    message(Message::model, out, 0);
    return out;
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    throw Error(name_ + " is not a complete ONNX model: " + what + " at byte " + std::to_string(in_.CurrentPosition()))
        .help("expected a ModelProto as torch.onnx.export and onnx.save write it");
  }

  void charge(std::size_t bytes) {
    bytes_ += bytes;
    ++fields_;
    if (bytes_ > kMaxGraphBytes || fields_ > kMaxFields)
      throw Error(name_ + ": its graph, without the weights, is larger than " + std::to_string(kMaxGraphBytes >> 20) +
                  " MiB or " + std::to_string(kMaxFields) + " fields");
  }

  // The fields of one message, to the limit that is pushed.
  void message(Message kind, std::string& out, int depth) {
    std::string notes;
    raw_.clear();
    if (++messages_ > kMaxMessages)
      throw Error(name_ + ": more than " + std::to_string(kMaxMessages) + " nodes, attributes and tensors");
    if (depth > kMaxMessageDepth) broken("messages nested deeper than " + std::to_string(kMaxMessageDepth) + " levels");
    for (;;) {
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) break;
      const std::uint32_t number = tag >> 3U;
      const Field* field = find(kind, number);
      if (number == 0) broken("a field without a number");
      switch (tag & 7U) {
        case varint: number_field(field, tag, out); break;
        case fixed64: bytes_field(field != nullptr, tag, 8, out); break;
        case fixed32: bytes_field(field != nullptr, tag, 4, out); break;
        case delimited:
          delimited_field(kind, field, tag, field != nullptr && field->inner == Message::note ? notes : out, depth);
          break;
        default: broken("a field of an unknown type");
      }
    }
    if (!in_.ConsumedEntireMessage()) broken("a field that does not end");
    if (kind == Message::known_value && notes.find(kKindNote) == std::string::npos) out.clear();
    if (kind == Message::tensor && !raw_.empty()) append_delimited(kTensorDocumentation << 3U | delimited, raw_, out);
    if (notes.empty() || out.empty()) return;
    append_delimited((kind == Message::node ? kNodeDocumentation : kValueDocumentation) << 3U | delimited, notes, out);
  }

  // A StringStringEntryProto (key 1, value 2) as text, where it is one of those that are read.
  static std::string note(const std::string& entry) {
    std::array<std::string, 2> parts;
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(entry.data()), static_cast<int>(entry.size()));
    for (std::uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
      std::uint32_t length = 0;
      const std::uint32_t number = tag >> 3U;
      if ((tag & 7U) != delimited || number < 1 || number > 2 || !in.ReadVarint32(&length) ||
          !in.ReadString(&parts[number - 1], static_cast<int>(length)))
        return "";
    }
    for (const std::string_view wanted : {kScopesNote, kCallNote, kNameNote, kKindNote})
      if (parts[0] == wanted) return parts[0] + "=" + parts[1] + kNoteEnd;
    return "";
  }

  void number_field(const Field* field, std::uint32_t tag, std::string& out) {
    std::uint64_t value = 0;
    if (!in_.ReadVarint64(&value)) broken("a number that does not end");
    if (field == nullptr) return;
    append_varint(tag, out);
    append_varint(value, out);
    charge(10);
  }

  void bytes_field(bool kept, std::uint32_t tag, int bytes, std::string& out) {
    std::string text;
    if (!in_.ReadString(&text, bytes)) broken("a number that does not end");
    if (!kept) return;
    append_varint(tag, out);
    out += text;
    charge(text.size());
  }

  void delimited_field(Message kind, const Field* field, std::uint32_t tag, std::string& out, int depth) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > static_cast<std::uint32_t>(std::numeric_limits<int>::max()))
      broken("a length that does not end");
    if (in_.BytesUntilLimit() >= 0 && static_cast<int>(length) > in_.BytesUntilLimit())
      broken("a field longer than what it is part of");
    if (field != nullptr && field->inner == Message::note && length <= kMaxContentBytes) {
      std::string entry;
      if (!in_.ReadString(&entry, static_cast<int>(length))) broken("the file ends within a text");
      const std::string text = note(entry);
      charge(text.size());
      out += text;
      return;
    }
    if (field != nullptr && field->inner != Message::none && field->inner != Message::note) {
      std::string inner;
      const auto limit = in_.PushLimit(static_cast<int>(length));
      message(field->inner, inner, depth + 1);
      if (in_.BytesUntilLimit() != 0) broken("the file ends within a message");
      in_.PopLimit(limit);
      if (kind == Message::function && tag >> 3U == kFunctionDefault) return append_default(inner, out);
      if (field->inner != Message::known_value || !inner.empty()) append_delimited(tag, inner, out);
      return;
    }
    if (kind == Message::tensor && tag >> 3U == kTensorRaw)
      raw_ = std::to_string(in_.CurrentPosition()) + " " + std::to_string(length);
    // Numbers of an attribute, packed into one field, are not left out: a shape may be among them.
    const bool is_list = kind == Message::attribute && field != nullptr && (field->number == 7 || field->number == 8);
    if (is_list && length > kMaxGraphBytes) charge(length);
    const bool long_data = length > kMaxContentBytes && !is_list;
    const bool is_note = field != nullptr && field->inner == Message::note;
    if (field != nullptr && long_data && !is_note && !is_data(kind, tag >> 3U) && kind != Message::attribute)
      broken("a name or type of " + std::to_string(length) + " bytes");
    if (field == nullptr || long_data) {
      if (!in_.Skip(static_cast<int>(length))) broken("the file ends within a tensor's data");
      return;
    }
    std::string text;
    if (!in_.ReadString(&text, static_cast<int>(length))) broken("the file ends within a text");
    append_delimited(tag, text, out);
  }

  void append_default(const std::string& attribute, std::string& out) {
    std::string node;
    append_delimited(kNodeOperator << 3U | delimited, std::string(kDefaultsNode), node);
    append_delimited(kNodeAttribute << 3U | delimited, attribute, node);
    append_delimited(kFunctionNode << 3U | delimited, node, out);
  }

  void append_delimited(std::uint32_t tag, const std::string& text, std::string& out) {
    append_varint(tag, out);
    append_varint(text.size(), out);
    out += text;
    charge(text.size() + 8);
  }

  static void append_varint(std::uint64_t value, std::string& out) {
    std::array<std::uint8_t, 10> bytes{};
    const std::uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(end - bytes.data()));
  }

  CodedInputStream& in_;
  std::string name_;
  std::string raw_;  // of the tensor that is being read: where its data lie
  std::size_t bytes_ = 0;
  std::size_t fields_ = 0;
  std::size_t messages_ = 0;
};

class OpenFile {
 public:
  OpenFile(const std::string& path, const std::string& called)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error("cannot read " + called + ": " + std::strerror(errno));
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::string read_without_weights(const std::string& path, const std::string& called) {
  const OpenFile file(path, called);
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode))
    throw Error(called + " is not a file: an ONNX model is read by seeking over its weights");
  if (status.st_size > std::numeric_limits<int>::max())
    throw Error(called + " is larger than 2 GiB, which protobuf does not allow")
        .help("ONNX keeps larger weights in a file of their own (external data), which need not be there");
  google::protobuf::io::FileInputStream raw(file.descriptor());
  CodedInputStream in(&raw);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  // A last seek may go past the end without an error: the size is the limit of the whole.
  const auto limit = in.PushLimit(static_cast<int>(status.st_size));
  std::string model = Stripper(in, called).model();
  in.PopLimit(limit);
  return model;
}

}  // namespace gpuplan::onnx_import
