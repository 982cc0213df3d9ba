#ifndef SLUICE_TESTS_PIPELINE_PROGRAM_LISTING_H_
#define SLUICE_TESTS_PIPELINE_PROGRAM_LISTING_H_

#include <string>
#include <vector>

#include "pipeline/compile/plan/program.h"

namespace sluice {

// The instructions of a rank's program, one line each, as a test writes them out:
//
//   begin 0F1                  an action of the timetable
//   end
//   load input 1 -> b0         micro-batch 1 of the data, into buffer 0
//   load targets 1 -> b1
//   post receive 1 #0 -> b2    the first message from rank 1, into buffer 2
//   wait receive 1 #0 -> b2
//   post send 1 #0 <- b3
//   wait send 1 #0 <- b3
//   F 0 (b0) -> b3             forward of local layer 0: reads b0, writes b3
//   restore 0
//   I 0 (b4) -> b5             input gradient: reads the output's gradient b4, writes b5
//   W 0                        weight gradient, overwriting; "W 0 +" adds to what is there
//   add group 0                of the rank's stage 0
//   reduce 0                   the program's reduction 0
//   update 0                   the program's update 0
std::vector<std::string> List(const RankProgram& program);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_PROGRAM_LISTING_H_
