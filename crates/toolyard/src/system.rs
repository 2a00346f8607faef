//! Requests of the program to the system for itself: a session of its own, many open files, a terminal that does not
//! show what is typed, and the programs that open a file as the user would.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(all(unix, feature = "cluster"))]
pub(crate) use unix::host_name;
#[cfg(unix)]
pub(crate) use unix::{
    OPENERS, allow_many_files, end_process, leave_session, report_to_service_manager, without_echo,
};
#[cfg(all(windows, feature = "cluster"))]
pub(crate) use windows::host_name;
#[cfg(windows)]
pub(crate) use windows::{
    OPENERS, allow_many_files, end_process, leave_session, report_to_service_manager, without_echo,
};
