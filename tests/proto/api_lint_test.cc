// Rules of the public contract: everything has a comment, and names follow one pattern.
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/proto/contract_files.h"

namespace gq {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::ServiceDescriptorProto;

using Path = std::vector<int>;

bool IsCamelCase(const std::string& name) {
  return !name.empty() && std::isupper(static_cast<unsigned char>(name[0])) &&
         name.find('_') == std::string::npos;
}

bool IsSnakeCase(const std::string& name) {
  for (const char c : name) {
    if (!std::islower(static_cast<unsigned char>(c)) &&
        !std::isdigit(static_cast<unsigned char>(c)) && c != '_') {
      return false;
    }
  }
  return !name.empty() && name.front() != '_' && name.back() != '_' &&
         name.find("__") == std::string::npos;
}

// JobState -> JOB_STATE
std::string UpperSnake(const std::string& camel) {
  std::string result;
  for (size_t i = 0; i < camel.size(); ++i) {
    if (i > 0 && std::isupper(static_cast<unsigned char>(camel[i]))) result += '_';
    result += static_cast<char>(std::toupper(static_cast<unsigned char>(camel[i])));
  }
  return result;
}

class Linter {
 public:
  explicit Linter(const FileDescriptorProto& file) : file_(file) {
    for (const auto& location : file.source_code_info().location()) {
      if (!location.leading_comments().empty()) {
        comments_[Path(location.path().begin(), location.path().end())] = true;
      }
    }
  }

  void Check() {
    EXPECT_EQ(file_.package(), "gq.v1") << file_.name();
    EXPECT_EQ(file_.syntax(), "proto3") << file_.name();
    for (int i = 0; i < file_.message_type_size(); ++i) {
      Message(file_.message_type(i), {FileDescriptorProto::kMessageTypeFieldNumber, i});
    }
    for (int i = 0; i < file_.enum_type_size(); ++i) {
      Enum(file_.enum_type(i), {FileDescriptorProto::kEnumTypeFieldNumber, i});
    }
    for (int i = 0; i < file_.service_size(); ++i) {
      Service(file_.service(i), {FileDescriptorProto::kServiceFieldNumber, i});
    }
  }

 private:
  void Commented(const Path& path, const std::string& name) {
    EXPECT_TRUE(comments_.count(path)) << file_.name() << ": " << name << " has no comment";
  }
  static Path Below(Path path, int kind, int index) {
    path.push_back(kind);
    path.push_back(index);
    return path;
  }

  void Message(const DescriptorProto& message, const Path& path) {
    Commented(path, message.name());
    EXPECT_TRUE(IsCamelCase(message.name())) << message.name();
    for (int i = 0; i < message.field_size(); ++i) {
      const std::string& name = message.field(i).name();
      Commented(Below(path, DescriptorProto::kFieldFieldNumber, i), message.name() + "." + name);
      EXPECT_TRUE(IsSnakeCase(name)) << message.name() << "." << name;
    }
    for (int i = 0; i < message.nested_type_size(); ++i) {
      if (message.nested_type(i).options().map_entry()) continue;
      Message(message.nested_type(i), Below(path, DescriptorProto::kNestedTypeFieldNumber, i));
    }
    for (int i = 0; i < message.enum_type_size(); ++i) {
      Enum(message.enum_type(i), Below(path, DescriptorProto::kEnumTypeFieldNumber, i));
    }
  }

  void Enum(const EnumDescriptorProto& type, const Path& path) {
    Commented(path, type.name());
    EXPECT_TRUE(IsCamelCase(type.name())) << type.name();
    const std::string prefix = UpperSnake(type.name()) + "_";
    ASSERT_GT(type.value_size(), 0) << type.name();
    EXPECT_EQ(type.value(0).name(), prefix + "UNSPECIFIED");
    EXPECT_EQ(type.value(0).number(), 0) << type.name();
    for (const auto& value : type.value()) {
      EXPECT_EQ(value.name().rfind(prefix, 0), 0u) << value.name() << " lacks " << prefix;
    }
  }

  void Service(const ServiceDescriptorProto& service, const Path& path) {
    Commented(path, service.name());
    EXPECT_TRUE(service.name().size() > 7 &&
                service.name().substr(service.name().size() - 7) == "Service")
        << service.name();
    for (int i = 0; i < service.method_size(); ++i) {
      const auto& method = service.method(i);
      Commented(Below(path, ServiceDescriptorProto::kMethodFieldNumber, i),
                service.name() + "." + method.name());
      EXPECT_TRUE(IsCamelCase(method.name())) << method.name();
      EXPECT_EQ(method.input_type(), ".gq.v1." + method.name() + "Request") << service.name();
    }
  }

  const FileDescriptorProto& file_;
  std::map<Path, bool> comments_;
};

TEST(ApiLint, ContractFollowsItsRules) {
  const auto files = ContractFiles();
  EXPECT_GE(files.size(), 6u);
  for (const FileDescriptorProto& file : files) Linter(file).Check();
}

}  // namespace
}  // namespace gq
