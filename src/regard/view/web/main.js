// A page of one file: all elements, opened on what is in it.

import "./text.js";
import { open } from "./page.js";

open();
