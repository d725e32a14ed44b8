#include "common/graph/model.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "tests/common/graph/test_models.h"

namespace gq::graph {
namespace {

using base::Reason;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kHeader[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n";
constexpr char kRelu[] = "g (float[2] x) => (float[2] y) { y = Relu(x) }";

absl::Status LoadText(const std::string& graph) {
  return LoadModelFromBytes(kHeader + graph, "m.onnxtxt").status();
}

absl::Status LoadProto(const onnx::ModelProto& proto) {
  return LoadModelFromBytes(proto.SerializeAsString(), "m.onnx").status();
}

onnx::ModelProto ReluProto() { return ParseText(kHeader + std::string(kRelu)); }

// A model with a weight of 2 KiB.
onnx::ModelProto WeightProto() {
  onnx::ModelProto proto = ParseText(
      kHeader + std::string("g (float[1, 16] x) => (float[1, 32] y) { y = MatMul(x, w) }"));
  auto* weight = proto.mutable_graph()->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(16);
  weight->add_dims(32);
  std::vector<float> values(16 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  weight->set_raw_data(values.data(), values.size() * sizeof(float));
  return proto;
}

// WeightProto with its weight in a file that holds `size` bytes, at `offset`.
onnx::ModelProto ExternalProto(const std::string& location, const std::string& offset,
                               const std::string& length) {
  onnx::ModelProto proto = WeightProto();
  auto* weight = proto.mutable_graph()->mutable_initializer(0);
  weight->clear_raw_data();
  weight->set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    auto* entry = weight->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  return proto;
}

TEST(LoadTest, TextAndBinaryGiveTheSameModel) {
  const auto text = LoadModelFromBytes(kHeader + std::string(kRelu), "m.onnxtxt");
  const auto binary = LoadModelFromBytes(ReluProto().SerializeAsString(), "m.onnx");
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(text->Digest(), binary->Digest());
}

TEST(LoadTest, TextErrorShowsTheLine) {
  const auto status = LoadText("g (float[2] x) => (float[2] y) {\n y = Relu(x\n}");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line"));
}

TEST(LoadTest, TextNestedTooDeepIsRefused) {
  EXPECT_EQ(ReasonOf(LoadText("g " + std::string(100000, '('))), Reason::kModelInvalid);
}

TEST(LoadTest, FilesThatAreNoModels) {
  const ModelFolder folder;
  EXPECT_EQ(ReasonOf(LoadModel(folder.path() / "none.onnx").status()), Reason::kFileNotFound);
  EXPECT_EQ(ReasonOf(LoadModel(folder.path()).status()), Reason::kFileUnreadable);
  EXPECT_EQ(ReasonOf(LoadModel(folder.Write("empty.onnx", "")).status()), Reason::kModelInvalid);
  const auto text = LoadModel(folder.Write("text.onnx", "hello, world")).status();
  EXPECT_EQ(ReasonOf(text), Reason::kModelInvalid);
  EXPECT_THAT(std::string(text.message()), HasSubstr("text.onnx"));
  const auto pointer =
      LoadModel(folder.Write("p.onnx", "version https://git-lfs.github.com/spec/v1\n")).status();
  EXPECT_THAT(std::string(pointer.message()), HasSubstr("LFS"));
}

TEST(LoadTest, EveryTruncationIsAnErrorOrAModel) {
  const std::string bytes = WeightProto().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); size += 7) {
    const auto status = LoadModelFromBytes(bytes.substr(0, size), "cut.onnx").status();
    if (status.ok()) continue;
    EXPECT_NE(base::GetReason(status), Reason::kInternal) << size;
  }
}

TEST(LoadTest, EveryFlippedByteIsAnErrorOrAModel) {
  const std::string bytes = ReluProto().SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto status = LoadModelFromBytes(damaged, "flipped.onnx").status();
      if (status.ok()) continue;
      EXPECT_NE(base::GetReason(status), Reason::kInternal) << i;
    }
  }
}

TEST(LoadTest, NewerVersionsAreNamed) {
  onnx::ModelProto proto = ReluProto();
  proto.set_ir_version(999);
  EXPECT_EQ(ReasonOf(LoadProto(proto)), Reason::kModelUnsupported);
  proto = ReluProto();
  proto.mutable_opset_import(0)->set_version(999);
  const auto status = LoadProto(proto);
  EXPECT_EQ(ReasonOf(status), Reason::kModelUnsupported);
  EXPECT_THAT(std::string(status.message()), HasSubstr("999"));
}

TEST(LoadTest, MissingTensorIsNamedWithItsReader) {
  const auto status = LoadText("g (float[2] x) => (float[2] y) { [n] y = Add(x, gone) }");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'gone'"), HasSubstr("'n'")));
}

TEST(LoadTest, CycleNamesItsNodes) {
  const auto status = LoadText(
      "g (float[2] x) => (float[2] y) { [first] a = Add(x, b)\n [second] b = Relu(a)\n y = Relu(b) "
      "}");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cycle"), HasSubstr("'first'"), HasSubstr("'second'")));
}

TEST(LoadTest, DoublyMadeTensorIsAnError) {
  const auto status =
      LoadText("g (float[2] x) => (float[2] y) { [a] y = Relu(x)\n [b] y = Neg(x) }");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'y'"));
}

TEST(LoadTest, WrongShapesNameTheNode) {
  const auto status = LoadText("g (float[2, 3] x) => (float[2, 3] y) { [bad] y = MatMul(x, x) }");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bad"));
}

TEST(LoadTest, UnknownOperatorIsNamed) {
  const auto status = LoadText("g (float[2] x) => (float[2] y) { y = Frobnicate(x) }");
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Frobnicate"));
}

TEST(LoadTest, AbsurdDimensionsAreRefusedBeforeMemoryIsTaken) {
  onnx::ModelProto proto = WeightProto();
  auto* weight = proto.mutable_graph()->mutable_initializer(0);
  weight->set_dims(0, int64_t{1} << 62);
  EXPECT_EQ(ReasonOf(LoadProto(proto)), Reason::kModelInvalid);
  weight->set_dims(0, -16);
  EXPECT_EQ(ReasonOf(LoadProto(proto)), Reason::kModelInvalid);
  weight->set_dims(0, 17);
  const auto status = LoadProto(proto);
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w'"));
}

// Each of these makes the onnx library's own shape inference crash.
TEST(LoadTest, AttributesAndRanksThatDoNotFitAreErrors) {
  for (const char* graph :
       {"g (float[1,2,4,4] x, float[3] w) => (float[N,M,H,W] y) { y = Conv <pads = [1,1,1,1]> (x, "
        "w) }",
        "g (float[1,2,4,4] x) => (float[N,M,H,W] y) { y = MaxPool <kernel_shape = [2,2], strides = "
        "[0,1]> (x) }",
        "g (float[1,2,4] x) => (float[1,2,4] y) { y = LayerNormalization <axis = "
        "9223372036854775805> (x, x) }",
        "g (float[1,4,2,2] x) => (float[N,M,H,W] y) { y = DepthToSpace <blocksize = 0> (x) }",
        "g (float[1,1,2,2] x, map(int64, int64[2]) i) => (float[N,M,H,W] y) { y = MaxUnpool "
        "<kernel_shape = [2,2]> (x, "
        "i) }"}) {
    EXPECT_EQ(ReasonOf(LoadText(graph)), Reason::kModelInvalid) << graph;
  }
}

TEST(LoadTest, OutputsNeedNoShapeInputsDo) {
  onnx::ModelProto proto = ReluProto();
  proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_TRUE(LoadProto(proto).ok()) << LoadProto(proto);
  proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const auto status = LoadProto(proto);
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'x'"));
}

// A sparse tensor of 2 x 3 with 5 at the given index.
onnx::SparseTensorProto Sparse(const std::vector<int64_t>& index,
                               const std::vector<int64_t>& index_dims) {
  onnx::SparseTensorProto sparse;
  sparse.add_dims(2);
  sparse.add_dims(3);
  auto* values = sparse.mutable_values();
  values->set_name("s");
  values->set_data_type(onnx::TensorProto::FLOAT);
  values->add_dims(1);
  values->add_float_data(5);
  auto* indices = sparse.mutable_indices();
  indices->set_data_type(onnx::TensorProto::INT64);
  for (const int64_t dim : index_dims) indices->add_dims(dim);
  for (const int64_t value : index) indices->add_int64_data(value);
  return sparse;
}

TEST(LoadTest, SparseInitializersBecomeDense) {
  for (const auto& sparse : {Sparse({4}, {1}), Sparse({1, 1}, {1, 2})}) {
    onnx::ModelProto proto = ReluProto();
    *proto.mutable_graph()->add_sparse_initializer() = sparse;
    const auto model = LoadModelFromBytes(proto.SerializeAsString(), "sparse.onnx");
    ASSERT_TRUE(model.ok()) << model.status();
    const auto* dense = model->FindInitializer("s");
    ASSERT_NE(dense, nullptr);
    EXPECT_THAT(*model->Data(*dense)->ToFloats(), ElementsAre(0, 0, 0, 0, 5, 0));
  }
}

TEST(LoadTest, SparseIndicesMustFit) {
  for (const auto& sparse : {Sparse({6}, {1}), Sparse({-1}, {1}), Sparse({2, 0}, {1, 2}),
                             Sparse({1, 1}, {2}), Sparse({0, 0, 0}, {1, 3})}) {
    onnx::ModelProto proto = ReluProto();
    *proto.mutable_graph()->add_sparse_initializer() = sparse;
    EXPECT_EQ(ReasonOf(LoadProto(proto)), Reason::kModelInvalid);
  }
}

TEST(LoadTest, SparseTensorsHaveALimit) {
  onnx::ModelProto proto = ReluProto();
  auto* sparse = proto.mutable_graph()->add_sparse_initializer();
  *sparse = Sparse({0}, {1});
  sparse->set_dims(0, int64_t{1} << 40);
  EXPECT_EQ(ReasonOf(LoadProto(proto)), Reason::kModelTooLarge);
}

TEST(LoadTest, NamesMustBeText) {
  for (const std::string& name : {std::string("a\xff"), std::string("\xc0\xaf"),
                                  std::string("\xed\xa0\x80"), std::string("\xf5\x80\x80\x80")}) {
    onnx::ModelProto proto = ReluProto();
    proto.mutable_graph()->mutable_node(0)->set_name(name);
    const auto status = LoadProto(proto);
    EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
    EXPECT_THAT(std::string(status.message()), HasSubstr("UTF-8"));
  }
  onnx::ModelProto proto = ReluProto();
  proto.mutable_graph()->mutable_node(0)->set_name("\xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_TRUE(LoadProto(proto).ok()) << LoadProto(proto);
}

TEST(NormalizeTest, TheDefaultDomainHasOneName) {
  onnx::ModelProto proto = ReluProto();
  proto.mutable_opset_import(0)->set_domain("ai.onnx");
  proto.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  const auto model = LoadModelFromBytes(proto.SerializeAsString(), "named.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph().node(0).domain(), "");
  EXPECT_GT(model->Opset(), 0);
}

TEST(NormalizeTest, ConstantsBecomeInitializers) {
  const Model model = TestModel(R"(g (float[2] x) => (float[2] y) {
    c = Constant <value = float[2] {1.0, 2.0}> ()
    k = Constant <value_ints = [2]> ()
    s = Reshape(c, k)
    y = Add(x, s)
  })");
  EXPECT_THAT(OpTypes(model), ElementsAre("Reshape", "Add"));
  ASSERT_NE(model.FindInitializer("c"), nullptr);
  EXPECT_THAT(*model.Data(*model.FindInitializer("c"))->ToFloats(), ElementsAre(1.0f, 2.0f));
  EXPECT_THAT(*model.Data(*model.FindInitializer("k"))->ToInts(), ElementsAre(2));
}

TEST(NormalizeTest, ConstantThatIsAnOutputStays) {
  const Model model = TestModel(
      "g (float[2] x) => (float[2] y, float[1] c) { y = Relu(x)\n c = Constant <value = float[1] "
      "{1.0}> () }");
  EXPECT_THAT(OpTypes(model), ElementsAre("Relu", "Constant"));
}

TEST(NormalizeTest, GivenNodeNamesAreKeptOthersMadeUp) {
  const Model model = TestModel(R"(g (float[2] x) => (float[2] y) {
    a = Relu(x)
    [a] b = Neg(a)
    [twin] c = Neg(b)
    [twin] y = Relu(c)
  })");
  EXPECT_THAT(NodeNames(model), ElementsAre("a_1", "a", "twin", "twin_1"));
}

TEST(NormalizeTest, InitializersLeaveTheInputs) {
  onnx::ModelProto proto = WeightProto();
  auto* input = proto.mutable_graph()->add_input();
  input->set_name("w");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(16);
  type->mutable_shape()->add_dim()->set_dim_value(32);
  proto.set_ir_version(3);
  const auto model = LoadModelFromBytes(proto.SerializeAsString(), "m.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph().input_size(), 1);
  EXPECT_GE(model->proto().ir_version(), 4);
}

TEST(NormalizeTest, NodesAreSorted) {
  onnx::ModelProto proto = ParseText(
      kHeader + std::string("g (float[2] x) => (float[2] y) { a = Neg(x)\n y = Relu(a) }"));
  proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
  const auto model = LoadModelFromBytes(proto.SerializeAsString(), "m.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(OpTypes(*model), ElementsAre("Neg", "Relu"));
}

TEST(NormalizeTest, FunctionsAreInlined) {
  const auto model = LoadModelFromBytes(R"(
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { y = own.Twice(x) }
    <domain: "own", opset_import: ["" : 17]>
    Twice (a) => (b) { b = Add(a, a) }
  )",
                                        "m.onnxtxt");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(OpTypes(*model), ElementsAre("Add"));
  EXPECT_EQ(model->graph().output(0).name(), "y");
}

TEST(NormalizeTest, RecursiveFunctionIsRefused) {
  const auto status = LoadModelFromBytes(R"(
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { y = own.A(x) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]>
    A (a) => (b) { b = own.B(a) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]>
    B (a) => (b) { b = own.A(a) }
  )",
                                         "m.onnxtxt")
                          .status();
  EXPECT_EQ(ReasonOf(status), Reason::kModelInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("calls itself"));
}

TEST(NormalizeTest, FunctionsThatExplodeAreRefused) {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]>\n"
      "g (float[2] x) => (float[2] y) { y = own.F0(x) }\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "Neg" : "own.F" + std::to_string(i + 1);
    text += "<domain: \"own\", opset_import: [\"\" : 17, \"own\" : 1]>\nF" + std::to_string(i) +
            " (a) => (b) { c = " + next + "(a)\n b = " + next + "(c) }\n";
  }
  EXPECT_EQ(ReasonOf(LoadModelFromBytes(text, "m.onnxtxt").status()), Reason::kModelTooLarge);
}

TEST(NormalizeTest, BodiesSeeOuterTensors) {
  const Model model = TestModel(R"(g (float[2] x, bool c) => (float[2] y) {
    a = Neg(x)
    y = If (c) <
      then_branch = t () => (float[2] u) { u = Relu(a) },
      else_branch = e () => (float[2] v) { k = Constant <value = float[2] {1.0, 2.0}> ()  v = Add(a, k) }
    >
  })");
  ASSERT_EQ(model.graph().node_size(), 2);
  EXPECT_THAT(CapturedNames(model.graph().node(1)), ElementsAre("a"));
}

TEST(NormalizeTest, CustomDomainsAreKept) {
  const Model model =
      TestModel("g (float[2] x) => (float[2] y) { y = lab.Magic(x) }", 17, 8, ", \"lab\" : 3");
  EXPECT_EQ(model.graph().node(0).domain(), "lab");
  EXPECT_EQ(model.OpsetOf("lab"), 3);
}

TEST(ExternalDataTest, ReadsAlignedAndUnalignedParts) {
  const std::vector<float> values(16 * 32, 0.5f);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 2048);
  for (const int offset : {0, 64, 3}) {
    const ModelFolder folder;
    folder.Write("w.bin", std::string(offset, 'x') + bytes);
    const auto path = folder.Write(
        "m.onnx", ExternalProto("w.bin", std::to_string(offset), "2048").SerializeAsString());
    const auto model = LoadModel(path);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->layout(), DataLayout::kExternalFile);
    EXPECT_THAT(*model->Data(model->graph().initializer(0))->ToFloats(),
                testing::ElementsAreArray(values));
  }
}

TEST(ExternalDataTest, FilesOutsideTheFolderAreRefused) {
  const ModelFolder outside;
  outside.Write("w.bin", std::string(2048, '\0'));
  const ModelFolder folder;
  std::filesystem::create_symlink(outside.path() / "w.bin", folder.path() / "link.bin");
  for (const std::string& location :
       {std::string("/etc/passwd"), "../" + outside.path().filename().string() + "/w.bin",
        std::string("link.bin"), std::string("gone.bin"), std::string(""), std::string(".")}) {
    const auto path = folder.Write("m.onnx", ExternalProto(location, "", "").SerializeAsString());
    EXPECT_EQ(ReasonOf(LoadModel(path).status()), Reason::kExternalDataInvalid) << location;
  }
}

TEST(ExternalDataTest, SizesThatDoNotFitAreRefused) {
  const ModelFolder folder;
  folder.Write("w.bin", std::string(2048, '\0'));
  const std::pair<const char*, const char*> cases[] = {{"1", ""},   {"0", "2047"},
                                                       {"-1", ""},  {"9223372036854775807", ""},
                                                       {"0", "-1"}, {"99999999999999999999", ""},
                                                       {"abc", ""}, {"0", "9223372036854775807"}};
  for (const auto& [offset, length] : cases) {
    const auto path =
        folder.Write("m.onnx", ExternalProto("w.bin", offset, length).SerializeAsString());
    const auto status = LoadModel(path).status();
    EXPECT_EQ(ReasonOf(status), Reason::kExternalDataInvalid) << offset << " " << length;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'w'"));
  }
}

TEST(ExternalDataTest, MemoryHasNoFilesBesideIt) {
  const auto status =
      LoadModelFromBytes(ExternalProto("w.bin", "", "").SerializeAsString(), "m.onnx").status();
  EXPECT_EQ(ReasonOf(status), Reason::kExternalDataInvalid);
}

TEST(SaveTest, RoundTripsInBothLayouts) {
  const auto model = LoadModelFromBytes(WeightProto().SerializeAsString(), "m.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelFolder folder;
  for (const DataLayout layout : {DataLayout::kInline, DataLayout::kExternalFile}) {
    const auto path = folder.path() / "saved.onnx";
    ASSERT_TRUE(SaveModel(*model, path, {.layout = layout}).ok());
    const auto again = LoadModel(path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->layout(), layout);
    EXPECT_EQ(again->Digest(), model->Digest());
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "saved.onnx.data"));
}

TEST(SaveTest, FailureLeavesTheOldFile) {
  const ModelFolder folder;
  const auto path = folder.path() / "no" / "such" / "m.onnx";
  const auto model = LoadModelFromBytes(WeightProto().SerializeAsString(), "m.onnx");
  EXPECT_EQ(ReasonOf(SaveModel(*model, path)), Reason::kFileUnwritable);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ModelTest, CopiesShareDataAndChangeApart) {
  auto model = LoadModelFromBytes(WeightProto().SerializeAsString(), "m.onnx");
  ASSERT_TRUE(model.ok());
  Model copy = *model;
  const auto before = model->Data(model->graph().initializer(0));
  EXPECT_EQ(before->bytes().data(), copy.Data(copy.graph().initializer(0))->bytes().data());
  copy.SetData(TensorView::Of<float>({16, 32}, std::vector<float>(512, 9.0f)),
               copy.mutable_graph()->mutable_initializer(0));
  copy.CompactStore();
  EXPECT_EQ(model->Data(model->graph().initializer(0))->At(1), 1.0);
  EXPECT_EQ(copy.Data(copy.graph().initializer(0))->At(1), 9.0);
  EXPECT_NE(model->Digest(), copy.Digest());
}

}  // namespace
}  // namespace gq::graph
