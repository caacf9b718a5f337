"use strict";
/* What the theme leaves out for readers without a mouse or a screen: names, levels, and wide blocks in the order of Tab. */
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.setAttribute("aria-level", "2");
  for (const [part, name] of [[".sidebar-drawer", "Pages of the site"], [".toc-drawer", "Sections of the page"]])
    document.querySelector(part)?.setAttribute("aria-label", name);
  const wide = () => {
    for (const block of document.querySelectorAll("pre, .table-wrapper"))
      if (block.scrollWidth > block.clientWidth || block.scrollHeight > block.clientHeight) block.tabIndex = 0;
  };
  wide();
  addEventListener("resize", wide);
});
