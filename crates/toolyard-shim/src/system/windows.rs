//! Windows: a program that is to outlive this one gets no window and none of our console's key events.

use tokio::process::Command;

/// No window, but a console for its own children; our key events do not reach it.
const CREATE_NO_WINDOW: u32 = 0x0800_0000;
const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;

pub(crate) fn detach(command: &mut Command) {
    command.creation_flags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP);
}
