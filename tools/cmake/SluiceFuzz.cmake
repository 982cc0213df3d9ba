# The build of `cmake --preset fuzz`: the schedules room, the other readers' files and the fuzzers, with clang's
# libFuzzer, and nothing else.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "SLUICE_FUZZ needs clang for its libFuzzer, not ${CMAKE_CXX_COMPILER_ID}; "
                      "use cmake --preset fuzz, or pass -DCMAKE_CXX_COMPILER=clang++")
endif()
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)
add_compile_options(-fsanitize=fuzzer-no-link)
set(SLUICE_FUZZ_SOURCES
    comm/tcp/greeting.cc
    models/files/file_writer.cc models/files/mapped_file.cc models/layers/layer.cc models/files/safetensors.cc
    models/files/safetensors_header.cc models/spec/model_spec.cc models/spec/decoder.cc models/spec/decoder_import.cc models/spec/describe_layers.cc
    models/spec/huggingface.cc models/spec/json.cc models/spec/profile_graph.cc models/spec/validate.cc
    partitioner/calibration/calibration_rows.cc
    partitioner/costs/cluster.cc partitioner/costs/cluster_file.cc partitioner/costs/collectives.cc
    partitioner/cuts/cost_table.cc partitioner/costs/decoder_cost.cc partitioner/costs/device.cc
    partitioner/costs/json_fields.cc partitioner/costs/layer_cost.cc partitioner/costs/model_json.cc
    partitioner/costs/parallel.cc partitioner/costs/profile.cc
    partitioner/cuts/downsets.cc partitioner/search/graph_partition.cc partitioner/search/graph_search.cc
    schedules/partition.cc
    partitioner/planning/file_read.cc
    pipeline/checkpoint/checkpoint.cc pipeline/checkpoint/checkpoint_files.cc pipeline/checkpoint/finite_tensors.cc
    pipeline/checkpoint/load_weights.cc
    tools/schedule/json_position.cc tools/schedule/schedule_costs_json.cc)
add_subdirectory(schedules)
add_subdirectory(tests/fuzz)
