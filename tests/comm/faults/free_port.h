#ifndef SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_
#define SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_

namespace sluice {

// A port of this machine where nothing listens, for another process to listen at. Not one that the
// system gives away itself (32768 and up): between this call and that process, any connection from
// here may be given it.
int FreePort();

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_
