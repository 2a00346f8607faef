//! Requests of the program to the system for itself: a session of its own, many open files, a terminal that does not
//! show what is typed, and a page in the user's browser.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(all(unix, feature = "cluster"))]
pub(crate) use unix::host_name;
#[cfg(unix)]
pub(crate) use unix::{
    allow_many_files, end_process, leave_session, open_page, report_to_service_manager, without_echo,
};
#[cfg(all(windows, feature = "cluster"))]
pub(crate) use windows::host_name;
#[cfg(windows)]
pub(crate) use windows::{
    allow_many_files, end_process, leave_session, open_page, report_to_service_manager, without_echo,
};
