//! Three ways to be triggered, side by side, while notices of change get lost.
//!
//! Each keeper wants five ConfigMaps of its own. Somebody deletes some of them, and the watch that should tell of it
//! drops every event on the way ([`lossy`]). What becomes of the five tells the ways apart ([`keepers`]):
//!
//! | | acts on | decides by |
//! |---|---|---|
//! | edge | the event | the event: one went, so one is made |
//! | level | any event | the state: how many are there, how many should be |
//! | resync | any event, and the clock | the state |
//!
//! Start reading at [`demo`], which is the story.

pub mod demo;
pub mod keepers;
pub mod lossy;
