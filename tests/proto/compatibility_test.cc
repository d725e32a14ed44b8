// The contract stays compatible: what golden/gq_v1.textproto (a google.protobuf.FileDescriptorSet)
// records is still there, under the same numbers and types.
//
// After an addition: GQ_UPDATE_GOLDEN=1 ctest -R proto.Compatibility, and commit the file.
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/proto/contract_files.h"

namespace gq {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorSet;

// Everything that a peer depends on, as one line of text for each element.
using Elements = std::map<std::string, std::string>;

void AddEnum(const EnumDescriptorProto& type, const std::string& scope, Elements* elements) {
  for (const auto& value : type.value()) {
    (*elements)["enum " + scope + type.name() + " " + std::to_string(value.number())] =
        value.name();
  }
}

void AddMessage(const DescriptorProto& message, const std::string& scope, Elements* elements) {
  const std::string name = scope + message.name();
  (*elements)["message " + name] = "";
  for (const FieldDescriptorProto& field : message.field()) {
    (*elements)["field " + name + " " + std::to_string(field.number())] =
        field.name() + " " + FieldDescriptorProto::Label_Name(field.label()) + " " +
        (field.has_type() ? FieldDescriptorProto::Type_Name(field.type()) : "") + " " +
        field.type_name() + (field.proto3_optional() ? " optional" : "");
  }
  for (const auto& nested : message.nested_type()) AddMessage(nested, name + ".", elements);
  for (const auto& type : message.enum_type()) AddEnum(type, name + ".", elements);
}

Elements ElementsOf(const FileDescriptorSet& set) {
  Elements elements;
  for (const auto& file : set.file()) {
    for (const auto& message : file.message_type()) AddMessage(message, "", &elements);
    for (const auto& type : file.enum_type()) AddEnum(type, "", &elements);
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        elements["method " + service.name() + "." + method.name()] =
            method.input_type() + (method.client_streaming() ? " stream" : "") + " -> " +
            method.output_type() + (method.server_streaming() ? " stream" : "");
      }
    }
  }
  return elements;
}

FileDescriptorSet Current() {
  FileDescriptorSet set;
  for (auto& file : ContractFiles()) {
    file.clear_source_code_info();
    *set.add_file() = std::move(file);
  }
  return set;
}

std::filesystem::path GoldenPath() {
  return SourceFolder() / "tests" / "proto" / "golden" / "gq_v1.textproto";
}

TEST(Compatibility, NothingIsRemovedRenumberedOrRetyped) {
  if (std::getenv("GQ_UPDATE_GOLDEN") != nullptr) {
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(Current(), &text));
    ASSERT_TRUE(base::WriteFileAtomically(GoldenPath(), text).ok());
  }
  FileDescriptorSet golden;
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(base::ReadFile(GoldenPath()).value(), &golden));
  const Elements before = ElementsOf(golden);
  const Elements now = ElementsOf(Current());
  EXPECT_GT(before.size(), 200u);
  for (const auto& [element, meaning] : before) {
    const auto found = now.find(element);
    if (found == now.end()) {
      ADD_FAILURE() << element << " (" << meaning << ") was removed";
    } else {
      EXPECT_EQ(found->second, meaning) << element << " has changed";
    }
  }
}

TEST(Compatibility, AdditionsAreRecorded) {
  FileDescriptorSet golden;
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(base::ReadFile(GoldenPath()).value(), &golden));
  const Elements before = ElementsOf(golden);
  for (const auto& [element, meaning] : ElementsOf(Current())) {
    EXPECT_TRUE(before.count(element))
        << element << " (" << meaning << ") is new; record it as the top of this file says";
  }
}

TEST(Compatibility, TheCheckNoticesAChange) {
  FileDescriptorSet set = Current();
  const Elements before = ElementsOf(set);
  FieldDescriptorProto* field = set.mutable_file(0)->mutable_message_type(1)->mutable_field(0);
  field->set_number(field->number() + 1000);
  EXPECT_NE(ElementsOf(set), before);
  field->set_number(field->number() - 1000);
  field->set_type(FieldDescriptorProto::TYPE_BYTES);
  EXPECT_NE(ElementsOf(set), before);
}

}  // namespace
}  // namespace gq
