//! Edge-triggered, level-triggered and resyncing controllers, side by side, while watch events get lost.
//!
//! Each controller maintains five ConfigMaps of its own. The demo deletes some of them, and the watch drops the events
//! ([`lossy`]). How many are recreated depends on the controller ([`controllers`]):
//!
//! | | acts on | decides by |
//! |---|---|---|
//! | edge | the event | the event: one was deleted, so one is created |
//! | level | any event | the state: actual and desired number |
//! | resync | any event, and a timer | the state |
//!
//! Start reading at [`demo`].

pub mod controllers;
pub mod demo;
pub mod lossy;
